// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/beats.hpp>
#include <distdl/agent/cause.hpp>
#include <distdl/agent/processes.hpp>
#include <distdl/agent/rank_look.hpp>
#include <distdl/agent/rank_stall.hpp>
#include <distdl/agent/ranks/oom_kills.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::agent {

/// How long a rank may give no sign of life, or make no progress.
struct BeatLimits {
  Milliseconds first{60000};   ///< time until the first sign: the process starts
  Milliseconds between{3000};  ///< time between later signs; after that the process is taken to be frozen
  StallLimits stall = {};
};

/// The ranks of one generation on this node. The destructor kills them.
class NodeRanks {
 public:
  /// `first`: the rank of the first of `ranks`. Throws SchedulerError if the system refuses a process.
  NodeRanks(Rank first, std::vector<Process> ranks, const BeatLimits& limits, Clock::time_point now);

  /// Descriptors that are readable when a rank has given a sign of life.
  std::vector<int> descriptors() const;
  /// Reads the signs of life, and ends the ranks that have given none for too long, or stay in one phase. `late`: by
  /// how much this process was late for its own last look; it was starved then, and so may be the ranks.
  void check(Clock::time_point now, Clock::duration late);
  /// Collects the ranks that have ended; returns how many still run.
  std::size_t reap();
  /// Asks the ranks to save and stop, by signal `number`, which they report as the reason.
  void stop(int number, Clock::time_point now);
  /// Ends the ranks at once. One that was ending because of its wrong bits counts as ended with that code.
  void kill();

  bool failed() const { return processes_.failed(); }
  int code() const { return processes_.code(); }
  /// Why they failed, for people: "rank 3 was killed by SIGKILL". Empty if none has.
  std::string cause() const;
  /// Cause of the failure, without the node.
  Origin origin() const;
  /// True if one of the ranks ends a round without a lost rank.
  bool end_a_round() const;
  /// True if all ranks have given a sign of life.
  bool are_up() const;
  /// The latest step that one of the ranks has reported as done; -1: none has begun.
  Step step() const;
  /// The ranks that still run, for a look at their state.
  std::vector<StartedRank> started() const;

 private:
  struct Sign {
    BeatPipe pipe;
    std::shared_ptr<ActivityMemory> activity = std::make_shared<ActivityMemory>();
    RankStall stall;
    Clock::time_point last;
    bool came = false;
    bool frozen = false;
    Step step{-1};
  };

  bool is_oom_kill() const;
  Rank rank_of(std::size_t index) const { return Rank(first_.value + static_cast<int>(index)); }
  void look_for_stall(std::size_t index, Clock::time_point now, Clock::duration late, const Deadline& looking);
  static std::vector<Process> with_pipes(std::vector<Process> ranks, const std::vector<Sign>& signs);

  Rank first_;
  BeatLimits limits_;
  std::vector<Sign> signs_;
  OomKills oom_kills_;                    ///< counts before the ranks started
  const char* oom_kill_place_ = nullptr;  ///< place of the cause, if that was a kill for lack of memory
  Processes processes_;
};

}  // namespace distdl::agent
