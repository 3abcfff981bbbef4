// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/agent/rank_look.hpp>
#include <distdl/agent/ranks/symbols.hpp>
#include <distdl/base/process_age.hpp>

namespace distdl::agent {
namespace {
/// A number that another process has by now gets no signal.
bool is_own_child(pid_t process) {
  auto fields = stat_of_process(process);
  std::string state;
  pid_t parent = 0;
  return fields >> state >> parent && parent == ::getpid() && state != "Z";
}

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

bool is_stopped(const std::string& state) {
  return state == "T" || state == "t" || state == "Z" || state.empty();
}

ThreadReport report_of(const StartedRank& rank, const ThreadSeen& seen) {
  ThreadReport report;
  report.name = seen.name;
  report.phase = name_of(seen.phase);
  report.seconds = seconds_since(seen.since);
  if (seen.step) report.step = seen.step->value;
  if (seen.wait)
    report.wait = WaitReport{seen.wait->operation, seen.wait->bytes, seen.wait->rank, seconds_since(seen.wait->since)};
  report.state = state_of_process(rank.process, seen.thread);
  report.kernel = kernel_function(rank.process, seen.thread);
  return report;
}
}  // namespace

std::string state_of_process(pid_t process, pid_t thread) {
  std::string state;
  stat_of_process(process, thread) >> state;
  return state;
}

/// Where the kernel does not say, it writes 0.
std::string kernel_function(pid_t process, pid_t thread) {
  std::ifstream in(fmt::format("/proc/{}/task/{}/wchan", process, thread));
  std::string text;
  in >> text;
  return text == "0" ? "" : text;
}

std::vector<std::string> stack_of(const StartedRank& rank, const ThreadSeen& thread, Milliseconds timeout) {
  constexpr std::size_t kOfTheHandler = 2;  // the handler itself, and the frame of the signal
  std::vector<std::string> stack;
  if (!is_own_child(rank.process)) return stack;
  const auto frames = rank.activity->stack(rank.process, thread, timeout);
  if (frames.size() <= kOfTheHandler) return stack;
  Symbols symbols(rank.process);
  for (std::size_t i = kOfTheHandler; i < frames.size(); ++i)
    stack.push_back(symbols.name_of(frames[i], i > kOfTheHandler));
  return stack;
}

RankReport look_at(const StartedRank& rank, Milliseconds timeout) {
  RankReport report{rank.rank, rank.process, state_of_process(rank.process, rank.process), {}};
  for (const ThreadSeen& seen : rank.activity->look()) {
    report.threads.push_back(report_of(rank, seen));
    const bool is_end = seen.phase != RankPhase::idle && !(seen.wait && seen.wait->rank);
    if (is_end && !is_stopped(report.threads.back().state)) report.threads.back().stack = stack_of(rank, seen, timeout);
  }
  return report;
}

}  // namespace distdl::agent
