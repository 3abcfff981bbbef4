// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include <distdl/agent/rank_reports.hpp>
#include <distdl/base/activity_page.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// A rank that this process has started.
struct StartedRank {
  Rank rank;
  pid_t process = 0;
  std::shared_ptr<const ActivityMemory> activity;
};

/// Reports the present state of a rank. It has the stacks of the threads that are busy and wait for no other rank; each
/// of these threads has `timeout` to show it.
RankReport look_at(const StartedRank& rank, Milliseconds timeout);

/// The stack of one thread, the innermost function first. Empty if it does not answer.
std::vector<std::string> stack_of(const StartedRank& rank, const ThreadSeen& thread, Milliseconds timeout);

/// The state of a process or of its thread `thread`, as /proc tells: "R", "S", "D", "T". Empty: there is none.
std::string state_of_process(pid_t process, pid_t thread);

/// The function of the kernel in which a thread waits. Empty: the kernel does not tell.
std::string kernel_function(pid_t process, pid_t thread);

}  // namespace distdl::agent
