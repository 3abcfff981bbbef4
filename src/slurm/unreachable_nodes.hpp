// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>

namespace distdl::slurm {

/// The nodes whose host has answered no TCP connection to slurmd's port in all the time `limit`, not even with a
/// refusal. The kernel of a slow or busy node answers at once, so such a node has no power or no network. Returns as
/// soon as all have answered; empty also if Slurm does not tell the addresses, or once `is_over()` returns true.
std::vector<std::string> unreachable_nodes(const std::vector<std::string>& nodes, Milliseconds limit,
                                           const std::function<bool()>& is_over);

}  // namespace distdl::slurm
