// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <distdl/world/world.hpp>

namespace distdl::world {

/// Runs `body` on `size` ranks that are threads of this process, each with its own World, and joins them all. For tests
/// and for trying things out. If ranks fail, the exception of the lowest rank that failed for a cause of its own is
/// thrown again; a CommError counts as the consequence of another rank's failure.
/// Example: run_threads(4, [](World& world) { fmt::print("rank {}\n", world.rank()); });
void run_threads(int size, const std::function<void(World&)>& body);

}  // namespace distdl::world
