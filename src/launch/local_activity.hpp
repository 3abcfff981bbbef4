// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <distdl/agent/inspector.hpp>
#include <distdl/agent/processes.hpp>
#include <distdl/agent/rank_stall.hpp>
#include <distdl/base/activity_page.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::launch {

/// Memory in which each rank on this machine shows its activity: for "distdl why", and to end a rank that makes no
/// progress.
class LocalActivity {
 public:
  /// `ranks`: 0 if this process does not start them itself. Throws SchedulerError.
  LocalActivity(int ranks, const agent::StallLimits& limits);
  /// The given processes of the ranks, with the variables and descriptors of their memory.
  std::vector<agent::Process> with_memory(std::vector<agent::Process> processes) const;
  /// Closes this process's descriptors of the memory. Call it after the start of the ranks.
  void close_descriptors();
  /// The state of this machine and its ranks, from which agent::Inspector answers requests.
  agent::InspectedNode node(const agent::Processes& processes) const;
  /// Ends ranks that make no progress. `late`: by how much this process was late for this look.
  void end_stalled(agent::Processes& processes, Clock::time_point now, Clock::duration late);
  /// Notes that the ranks were asked to stop at this time.
  void stop(Clock::time_point now);
  /// "rank 1 made no progress for 25.1 s in data at step 118", of the first that was ended; empty: none was.
  const std::string& stall() const { return stall_; }

 private:
  agent::StartedRank started(std::size_t index, pid_t process) const;

  std::vector<std::shared_ptr<ActivityMemory>> memory_;
  std::vector<agent::RankStall> stalls_;
  std::string stall_;
};

}  // namespace distdl::launch
