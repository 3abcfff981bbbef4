// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// Whether the process has ended, or is a zombie that its parent has not waited for.
bool has_ended(int pid);

/// The pauses of a rank without work: it first spins, then yields to other threads, then sleeps until UCX has an event
/// or the process of a watched peer ends.
class Idle {
 public:
  explicit Idle(ucp_worker_h worker);

  /// Wakes up when process `pid` ends, which shared memory does not report.
  void watch(Rank rank, int pid);
  void unwatch(Rank rank);

  /// Called when something has happened: the next pause spins again.
  void restart();
  /// Spins, yields or sleeps for at most 10 ms. `polls`: the awaited event wakes nobody up, so sleeps are only a small
  /// part of the time already waited. `asleep`: only sleeps, since another thread computes meanwhile.
  void pause(bool polls = false, bool asleep = false);
  /// Whether something has happened so shortly before that it is not worth while to sleep.
  bool is_short() const;
  /// Ends the pause of the thread that uses this object, or its next one. The only function that any thread may call.
  void wake() const noexcept;
  /// Whether wake() was called since the last call.
  bool take_wake() { return std::exchange(woken_, false); }
  /// Returns true about once per millisecond.
  bool looked() { return std::exchange(new_look_, false); }
  /// The ranks whose process has ended since the last call.
  std::vector<Rank> take_ended() { return std::exchange(ended_, {}); }

 private:
  struct Watched {
    Rank rank;
    FileDescriptor process;
  };
  void look(std::chrono::nanoseconds wait);

  ucp_worker_h worker_;
  FileDescriptor epoll_, wake_;
  std::vector<Watched> watched_;
  std::vector<Rank> ended_;
  Clock::time_point since_ = Clock::now();
  Clock::time_point looked_ = since_;
  Clock::time_point yielded_ = since_;
  bool crowded_ = false;  ///< other threads ran during the last yield
  bool new_look_ = false;
  bool woken_ = false;
};

}  // namespace distdl::comm
