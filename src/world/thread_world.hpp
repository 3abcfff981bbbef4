// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <distdl/world/world.hpp>

namespace distdl::world {

/// Runs `body` on `size` ranks, which are threads of this process with their own World, and joins them. For tests and
/// experiments. If ranks fail, the exception of the lowest rank with a cause of its own is rethrown; a CommError counts
/// as the consequence of another rank's failure. Example: run_threads(4, [](World& world) { fmt::print("rank {}\n",
/// world.rank()); });
void run_threads(int size, const std::function<void(World&)>& body);

}  // namespace distdl::world
