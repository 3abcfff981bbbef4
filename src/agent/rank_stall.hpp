// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/rank_look.hpp>
#include <distdl/agent/stall_watch.hpp>
#include <distdl/base/activity_page.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// Finds out that a rank no longer makes progress, by what its threads show.
class RankStall {
 public:
  explicit RankStall(const StallLimits& limits = {})
      : limits_(limits), watches_(ActivityPage::kThreads, StallWatch(limits)) {}
  /// As StallWatch::look(), for all threads, and for a process that a signal has stopped. Whether one was found at this
  /// look: text() then tells it, and the log has its stack. A file system that hangs may hold the thread that looks for
  /// that one: nobody waits for it for longer than until `looking`. A phase that takes long is told in the log.
  bool look(const StartedRank& rank, Clock::time_point now, Clock::duration late, const Deadline& looking);
  /// The rank was asked to stop.
  void stop(Clock::time_point now);
  /// "made no progress for 25.1 s in data at step 118"; empty: it does.
  const std::string& text() const { return text_; }
  /// True if a signal has stopped the process.
  bool is_frozen() const { return is_frozen_; }
  /// How much of the time between the last two looks counts for nothing, as a debugger held the process.
  Clock::duration held() const { return held_; }

 private:
  bool look_at_process(const StartedRank& rank, Clock::time_point now, Clock::duration late);
  void tell(const StartedRank& rank, const ThreadSeen& seen, Clock::time_point now);

  StallLimits limits_;
  std::vector<StallWatch> watches_;  ///< by the place of the thread
  std::string text_;
  bool is_frozen_ = false;
  std::optional<Clock::time_point> looked_at_, stopped_;  ///< `stopped_`: since when a signal has stopped the process
  Clock::duration held_{};
};

}  // namespace distdl::agent
