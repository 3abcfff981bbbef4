// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  explicit RankStall(const StallLimits& limits = {}) : watches_(ActivityPage::kThreads, StallWatch(limits)) {}
  /// As StallWatch::look(), for all threads. Whether one was found at this look: text() then tells it, and the log has
  /// its stack. A file system that hangs may hold the thread that looks for that one: nobody waits for it for longer
  /// than until `looking`.
  bool look(const StartedRank& rank, Clock::time_point now, Clock::duration late, const Deadline& looking);
  /// "made no progress for 25.1 s in data at step 118"; empty: it does.
  const std::string& text() const { return text_; }

 private:
  std::vector<StallWatch> watches_;  ///< by the place of the thread
  std::string text_;
};

}  // namespace distdl::agent
