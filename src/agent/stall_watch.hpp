// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <distdl/base/activity_page.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// How long a thread of a rank may be in one phase.
struct StallLimits {
  Milliseconds least{0};           ///< a limit is never shorter; 0: there are no limits
  Milliseconds least_of_saves{0};  ///< least limit for phases in which files of checkpoints are written
  Milliseconds most{0};            ///< nor longer, and that of phases that were seen too seldom; 0: there is none
  Milliseconds after_stop{0};      ///< once the rank was asked to stop, in the place of a longer `least`; 0: as before
  Milliseconds stopped{0};         ///< a process that a signal has stopped for so long is frozen; 0: none is
};

/// How long the phases of a thread took so far, and the limits that follow from it.
class PhaseHistory {
 public:
  /// Phases that were seen so often have a limit of their own: kTimes the longest one. Those in which samples are read
  /// have one from the start, so that a file system that hangs at the first batch is found too.
  static constexpr std::uint32_t kEnough = 3;
  static constexpr int kTimes = 10;

  void took(RankPhase phase, Clock::duration time);
  Clock::duration longest(RankPhase phase) const { return longest_[static_cast<std::size_t>(phase)]; }
  /// Nothing: there is none yet. `completed`: how often the thread has left this phase.
  std::optional<Clock::duration> limit(RankPhase phase, std::uint32_t completed, const StallLimits& limits) const;

 private:
  std::array<Clock::duration, kRankPhases> longest_{};
};

/// Finds out that one thread of a rank no longer makes progress although its process runs. A thread that waits for
/// another rank is not the one to blame.
class StallWatch {
 public:
  explicit StallWatch(const StallLimits& limits) : limits_(limits) {}
  /// To be called often. `late`: by how much the caller was late; it was starved then, and so may be the rank. Returns
  /// for how long it has been in its phase, if that is too long.
  std::optional<Clock::duration> look(const ThreadSeen& seen, Clock::time_point now, Clock::duration late);
  /// The rank was asked to stop: from now on its phases may take StallLimits::after_stop.
  void stop(Clock::time_point now);
  /// True if it is time to report that the phase takes long: once for each time that the thread is in one.
  bool is_news(const ThreadSeen& seen, Clock::time_point now);
  /// Since when the thread has been in its phase, as far as this object has seen.
  Clock::time_point since() const { return since_; }
  const PhaseHistory& history() const { return history_; }

 private:
  StallLimits limits_;
  PhaseHistory history_;
  pid_t thread_ = 0;
  std::uint64_t entered_ = 0;
  RankPhase phase_ = RankPhase::idle;
  Clock::time_point since_;
  std::optional<Clock::time_point> stopped_;  ///< when the rank was asked to stop
  std::uint64_t told_ = 0;                    ///< the phase that is_news() was true for
};

/// "made no progress for 25.1 s in data at step 118, reading "train.h5"; the longest before took 0.2 s".
std::string text_of_stall(const ThreadSeen& seen, Clock::duration time, const PhaseHistory& history);

}  // namespace distdl::agent
