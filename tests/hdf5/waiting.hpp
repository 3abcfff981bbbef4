// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <distdl/hdf5/lock.hpp>

namespace distdl::hdf5 {

/// What does not wait would be done by then. On a busy machine it may not be, and a fault is overlooked; none is made
/// up.
inline constexpr std::chrono::milliseconds kLongEnough{200};

/// Whether `action`, in a thread of its own, does not end while this one holds the lock.
inline bool waits_for_the_lock(const std::function<void()>& action) {
  std::atomic<bool> done{false};
  std::thread other;
  bool waited = false;
  {
    Lock lock;
    other = std::thread([&] {
      action();
      done = true;
    });
    std::this_thread::sleep_for(kLongEnough);
    waited = !done;
  }
  other.join();
  return waited;
}

}  // namespace distdl::hdf5
