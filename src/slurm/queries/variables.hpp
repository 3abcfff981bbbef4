// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <distdl/slurm/allocation.hpp>

// Readers of Slurm's variables, for any text. Nothing here asks the environment.
namespace distdl::slurm {

/// The value of a variable, if it has one.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;

/// As current_allocation(), which takes the variables from the environment.
std::optional<Allocation> allocation_from(const Variable& variable);

/// As switches_of_node(), of SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN: "core.leaf3.n17" and
/// "switch.switch.node"; without a topology "n17" and "node".
std::string switches_in(const std::string& address, const std::string& pattern);

}  // namespace distdl::slurm
