// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "tests/pace.hpp"
#include <distdl/comm/communicator.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::comm {

/// For tests on one machine: no network but loopback, and no long waits.
inline Options test_options() {
  Options options;
  options.timeout_seconds = paced(20);
  options.connect_timeout_seconds = paced(20);
  options.interface = "lo";
  return options;
}

/// Runs `body` on `size` connected ranks that are threads.
inline void on_threads(int size, const std::function<void(Communicator&)>& body,
                       const Options& options = test_options()) {
  world::run_threads(size, [&](world::World& world) { run_connected(world, options, body); });
}

}  // namespace distdl::comm
