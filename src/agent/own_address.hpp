// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace distdl::agent {

/// The numeric address of this host under which other hosts of the job reach it: that of the network interface
/// `interface`, or, for "auto", the one from which packets to `other`, else to the host of srun, leave; without a Slurm
/// step 127.0.0.1. Throws ConfigError if there is no such interface or it has no address.
std::string own_address(const std::string& interface, const std::optional<std::string>& other = std::nullopt);

}  // namespace distdl::agent
