// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include <distdl/agent/inspector.hpp>
#include <distdl/agent/processes.hpp>
#include <distdl/base/activity_page.hpp>

namespace distdl::launch {

/// Memory in which each rank on this machine shows what it is at, for "distdl why".
class LocalActivity {
 public:
  /// `ranks`: 0 if this process does not start them itself. Throws SchedulerError.
  explicit LocalActivity(int ranks);
  /// The processes of the ranks, which are told of the memory.
  std::vector<agent::Process> with_memory(std::vector<agent::Process> processes) const;
  /// After their start.
  void close_descriptors();
  /// What the answers are made of.
  agent::InspectedNode node(const agent::Processes& processes) const;

 private:
  std::vector<std::shared_ptr<ActivityMemory>> memory_;
};

}  // namespace distdl::launch
