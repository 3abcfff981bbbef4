// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// Is there no such process any more, or only what its parent has not yet asked for?
bool has_ended(int pid);

/// What a rank does while it has nothing to do: at first it spins, then it gives way to other threads, then it sleeps
/// until UCX has something or the process of a watched peer ends.
class Idle {
 public:
  explicit Idle(ucp_worker_h worker);

  /// Wakes up when process `pid` ends, which shared memory alone does not tell.
  void watch(Rank rank, int pid);
  void unwatch(Rank rank);

  /// Something has happened: spin again.
  void restart();
  /// Spins, yields or sleeps, 10 ms at most. `polls`: something is waited for that wakes nobody up, so sleeps are a
  /// small part of the time already waited.
  void pause(bool polls = false);
  /// True about once a millisecond.
  bool looked() { return std::exchange(new_look_, false); }
  /// Ranks whose process ended since the last call.
  std::vector<Rank> take_ended() { return std::exchange(ended_, {}); }

 private:
  struct Watched {
    Rank rank;
    FileDescriptor process;
  };
  void look(std::chrono::nanoseconds wait);

  ucp_worker_h worker_;
  FileDescriptor epoll_;
  std::vector<Watched> watched_;
  std::vector<Rank> ended_;
  Clock::time_point since_ = Clock::now();
  Clock::time_point looked_ = since_;
  Clock::time_point yielded_ = since_;
  bool crowded_ = false;  ///< the last yield let others run
  bool new_look_ = false;
};

}  // namespace distdl::comm
