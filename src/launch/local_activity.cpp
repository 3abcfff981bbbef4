// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <fmt/format.h>

#include <distdl/base/process.hpp>
#include <distdl/launch/local_activity.hpp>

namespace distdl::launch {

LocalActivity::LocalActivity(int ranks, const agent::StallLimits& limits)
    : stalls_(static_cast<std::size_t>(ranks), agent::RankStall(limits)) {
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
  if (memory_.empty())
    node.note =
        "what the ranks are at cannot be seen, because no agents watch them (run.recovery = \"relaunch\"). \"distdl "
        "status\" and \"distdl log\" tell how far they are; a debugger on their node shows where: srun --jobid=JOB "
        "--overlap --nodelist=NODE --pty gdb -p PID. With run.recovery = \"agents\" this command tells both";
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (const auto pid = processes.pid_of(i)) node.ranks.push_back(started(i, *pid));
  node.nodes = {{node.host, true, 0}};
  return node;
}

agent::StartedRank LocalActivity::started(std::size_t index, pid_t process) const {
  return {Rank(static_cast<int>(index)), process, memory_[index]};
}

void LocalActivity::stop(Clock::time_point now) {
  for (auto& stall : stalls_) stall.stop(now);
}

void LocalActivity::end_stalled(agent::Processes& processes, Clock::time_point now, Clock::duration late) {
  constexpr int kKilled = 128 + SIGKILL;
  constexpr Milliseconds kLongestLook{300};  // at the stacks of all ranks that are ended at once
  const auto looking = Deadline::after(kLongestLook);
  for (std::size_t i = 0; i < stalls_.size(); ++i) {
    const auto process = processes.pid_of(i);
    if (!process || !stalls_[i].look(started(i, *process), now, late, looking)) continue;
    if (stall_.empty()) stall_ = fmt::format("rank {} {}", i, stalls_[i].text());
    processes.kill(i, kKilled);
  }
}

}  // namespace distdl::launch
