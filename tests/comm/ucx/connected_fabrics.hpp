// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "tests/comm/connected_threads.hpp"
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// Runs `body` on the fabrics of `size` ranks that are threads. Nothing is sent before `body` does, and nothing waits
/// for the others after it. `change` may forge what a rank believes of the others.
inline void on_fabrics(int size, const std::function<void(Fabric&)>& body, const Options& options = test_options(),
                       const std::function<void(Rank, std::vector<PeerAddress>&)>& change = {}) {
  world::run_threads(size, [&](world::World& world) {
    Fabric fabric(options);
    std::vector<PeerAddress> addresses;
    for (const auto& bytes : world.all_gather_strings(encode(fabric.own_address(world.rank())), Milliseconds(20000)))
      addresses.push_back(decode_peer_address(bytes));
    if (change) change(world.rank(), addresses);
    fabric.connect(world.rank(), std::move(addresses));
    body(fabric);
  });
}

inline Options with_timeout(double seconds) {
  Options options = test_options();
  options.timeout_seconds = paced(seconds);
  return options;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> room_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace distdl::comm
