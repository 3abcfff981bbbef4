// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/process.hpp>
#include <distdl/launch/local_activity.hpp>

namespace distdl::launch {

LocalActivity::LocalActivity(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) memory_.push_back(std::make_shared<ActivityMemory>());
}

std::vector<agent::Process> LocalActivity::with_memory(std::vector<agent::Process> processes) const {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    processes[i].variables.merge(memory_[i]->variables());
    processes[i].descriptors.push_back(memory_[i]->descriptor());
  }
  return processes;
}

void LocalActivity::close_descriptors() {
  for (auto& one : memory_) one->close_descriptor();
}

agent::InspectedNode LocalActivity::node(const agent::Processes& processes) const {
  agent::InspectedNode node{.host = host_name()};
  if (memory_.empty()) node.note = "no agents watch the ranks, as run.recovery is \"relaunch\"";
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (const auto pid = processes.pid_of(i)) node.ranks.push_back({Rank(static_cast<int>(i)), *pid, memory_[i]});
  node.nodes = {{node.host, true, 0}};
  return node;
}

}  // namespace distdl::launch
