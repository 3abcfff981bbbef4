// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>

#include <fmt/ranges.h>

#include <distdl/base/log.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/launch/surviving_nodes.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/slurm/scheduler.hpp>
#include <distdl/slurm/unreachable_nodes.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;
using Decision = NextNodes::Decision;

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> joined(std::vector<std::string> names, const std::vector<std::string>& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

/// Requirements of the next launch for its nodes.
struct Wanted {
  const LaunchSpec& spec;
  const std::vector<std::string>& files;
  std::vector<std::string> silent = {};  ///< not asked: they were found silent a moment ago
  std::optional<int> fewest = {};        ///< nodes with which the job may begin; nothing: not known yet
};

/// The job's nodes at one check, and whether they suffice.
struct Look {
  std::vector<std::string> answering;
  std::vector<std::string> second_choice;  ///< those of `answering` that had been left out
  int needed = 0;                          ///< 0: not known
  std::optional<int> left;        ///< those of the launches' nodes that the job still has, by Slurm; nothing: not known
  std::string trouble;            ///< the problem of the other nodes; empty: none
  bool over = false;              ///< true if the job is over
  bool lacks_files_only = false;  ///< true if the other nodes answer, but lack files

  bool is_enough() const { return !answering.empty() && answering.size() >= static_cast<std::size_t>(needed); }
  /// Slurm has taken nodes out of the job (--no-kill), which never come back to it.
  bool is_hopeless() const { return left && *left < needed; }
};

/// "one does not answer"
std::string complaint(const slurm::Probe& probe) {
  const auto count = probe.silent.size();
  if (probe.lacking == count) return count == 1 ? "one lacks a file" : fmt::format("{} lack a file", count);
  return count == 1 ? "one does not answer" : fmt::format("{} do not answer", count);
}

/// Number of these nodes that the job still has. It may have others, which the pre-flight has left out for good.
std::optional<int> left_of(const slurm::JobRecord& record, const std::vector<std::string>& names) try {
  if (record.node_list.empty()) return record.nodes > 0 ? std::optional(record.nodes) : std::nullopt;
  const auto nodes = slurm::expand_host_list(record.node_list);
  return static_cast<int>(
      std::count_if(names.begin(), names.end(), [&](const auto& name) { return has(nodes, name); }));
} catch (const SchedulerError&) {  // then Slurm's list is not known
  return std::nullopt;
}

/// Those that come first are always asked. A node whose host answers nothing needs no srun, which would wait for it.
slurm::Probe ask(const Wanted& wanted, const std::vector<std::string>& names, const Options& options,
                 const Deadline& limit) {
  const auto probe_limit = seconds(options.probe_seconds);
  const Deadline end(std::max(limit.when(), Clock::now() + probe_limit));
  const auto is_over = [&] { return end.expired() || stop_is_pending(); };
  std::vector<std::string> asked, silent;
  for (const auto& name : names) (has(wanted.silent, name) ? silent : asked).push_back(name);
  const auto without_host = slurm::unreachable_nodes(asked, wanted.spec.node_lost, is_over);
  std::erase_if(asked, [&](const auto& name) { return has(without_host, name); });
  auto probe =
      slurm::probe(*wanted.spec.allocation, asked, wanted.files, std::chrono::ceil<Milliseconds>(probe_limit), is_over);
  silent = joined(std::move(silent), without_host);
  if (!silent.empty()) probe.cause = fmt::format("the host of {} does not answer", fmt::join(silent, ", "));
  probe.silent = joined(std::move(silent), probe.silent);
  return probe;
}

/// At most `count` nodes of the second choice, but none of `except`, that answer and see all files.
std::vector<std::string> second_choice(const Wanted& wanted, std::size_t count, const std::vector<std::string>& except,
                                       const Options& options, const Deadline& limit) {
  std::vector<std::string> names = wanted.spec.second_choice;
  std::erase_if(names, [&](const auto& name) { return has(except, name); });
  if (names.empty() || count == 0) return {};
  auto answering = ask(wanted, names, options, limit).answering;
  answering.resize(std::min(count, answering.size()));
  return answering;
}

void tell_second_choice(const std::vector<std::string>& nodes) {
  for (const auto& node : nodes)
    log(Severity::warning, "{} was left out, and is used all the same: the job cannot do without it", node);
}

Look look(Wanted& wanted, const Options& options, const Deadline& limit) try {
  const slurm::Allocation& allocation = *wanted.spec.allocation;
  const auto names = slurm::nodes_of(allocation);
  const auto probe = ask(wanted, names, options, limit);
  Look found;
  found.answering = probe.answering;
  found.needed = static_cast<int>(names.size());
  found.lacks_files_only = probe.lacking == probe.silent.size();
  if (probe.silent.empty()) return found;
  found.trouble = fmt::format("job {1} has {0} nodes, but {2}: {3} ({4})", names.size(), allocation.job,
                              complaint(probe), fmt::join(probe.silent, ", "), probe.cause);
  if (stop_is_pending()) return found;
  const bool tells = slurm::has_scontrol();  // else the nodes that answer decide alone
  found.over = tells && is_over(allocation);
  if (!wanted.fewest) wanted.fewest = slurm::fewest_nodes(allocation);
  found.needed = nodes_needed(wanted.spec, wanted.fewest);
  const auto record = tells ? slurm::scheduler().job(allocation.called()) : std::nullopt;
  if (record) found.left = left_of(*record, joined(names, wanted.spec.second_choice));
  if (found.over || found.is_enough()) return found;
  found.second_choice =
      second_choice(wanted, static_cast<std::size_t>(found.needed) - found.answering.size(), {}, options, limit);
  found.answering = joined(found.answering, found.second_choice);
  return found;
} catch (const SchedulerError& error) {
  Look found;
  found.trouble = error.what();
  return found;
}
}  // namespace

bool one_lacks(const slurm::Allocation& allocation, const std::vector<std::string>& files,
               const std::vector<std::string>& nodes, const Options& options) try {
  if (allocation.node_list.empty()) return false;
  const auto limit = Deadline::after(60s);
  const auto probe = slurm::probe(allocation, nodes.empty() ? slurm::nodes_of(allocation) : nodes, files,
                                  std::chrono::ceil<Milliseconds>(seconds(options.probe_seconds)),
                                  [&] { return limit.expired() || stop_is_pending(); });
  return probe.lacking > 0;
} catch (const SchedulerError&) {  // then nothing is known of them
  return false;
}

NextNodes surviving_nodes(const LaunchSpec& spec, const std::vector<std::string>& files,
                          const std::vector<std::string>& before, const std::vector<std::string>& silent,
                          const Options& options, agent::SupervisorSignals& signals) {
  if (spec.allocation->node_list.empty()) return {};
  Wanted wanted{spec, files, silent};
  const auto limit = Deadline::after(seconds(options.node_minutes * 60));
  BackOff pauses(1s, 30s);
  const auto stops = [&](Milliseconds pause) {
    const auto number = signals.wait_for_stop(pause);
    if (number) log(Severity::info, "signal SIG{} ends the search for nodes", sigabbrev_np(*number));
    return number.has_value();
  };
  for (bool lost = false;;) {
    const Look now = look(wanted, options, limit);
    wanted.silent.clear();
    if (now.over) {
      log(Severity::info, "{}; Slurm has ended or requeued the job", now.trouble);
      return {Decision::end, {}, true};
    }
    if (stops(0ms)) return {Decision::requeue, {}, true};
    if (now.trouble.empty()) return {Decision::launch, now.answering, lost};
    lost = lost || now.answering.empty() || before.empty() ||
           !std::all_of(before.begin(), before.end(), [&](const auto& name) { return has(now.answering, name); });
    if (now.is_enough()) {
      log(Severity::warning, "{}; continuing with {}", now.trouble, fmt::join(now.answering, ", "));
      tell_second_choice(now.second_choice);
      return {Decision::launch, now.answering, lost};
    }
    if (limit.expired() && now.lacks_files_only) return {Decision::launch, {}, false};
    if (limit.expired()) {
      log(Severity::error, "{}; giving up after {:g} min (run.node_minutes)", now.trouble, options.node_minutes);
      return {Decision::requeue, {}, true};
    }
    if (now.is_hopeless()) {
      log(Severity::error, "{}; Slurm has left {} of its nodes to the job, which needs {}", now.trouble, *now.left,
          now.needed);
      return {Decision::requeue, {}, true};
    }
    const auto pause = pauses.next();
    log(Severity::warning,
        "{}; waiting until {} answer, or Slurm has given up the others, for up to {:g} min (run.node_minutes); next "
        "try "
        "in {} s",
        now.trouble, now.needed > 0 ? fmt::format("at least {}", now.needed) : "they", options.node_minutes,
        pause / 1s);
    if (stops(pause)) return {Decision::requeue, {}, true};
  }
}

NextNodes without_wrong(NextNodes next, const LaunchSpec& spec, const std::vector<std::string>& files,
                        const std::vector<std::string>& wrong, const Options& options) try {
  const slurm::Allocation& allocation = *spec.allocation;
  if (next.decision != Decision::launch || wrong.empty() || allocation.node_list.empty()) return next;
  const std::vector<std::string> candidates = next.nodes.empty() ? slurm::nodes_of(allocation) : next.nodes;
  std::vector<std::string> nodes, left_out;
  for (const auto& name : candidates) (has(wrong, name) ? left_out : nodes).push_back(name);
  if (left_out.empty()) return next;
  const auto needed = static_cast<std::size_t>(nodes_needed(spec, slurm::fewest_nodes(allocation)));
  const auto more = second_choice({spec, files}, needed - std::min(needed, nodes.size()), joined(nodes, wrong), options,
                                  Deadline::after(seconds(options.probe_seconds)));
  nodes = joined(std::move(nodes), more);
  if (nodes.size() >= needed) {
    log(Severity::warning, "an audit found wrong bits on {}; continuing with {}", fmt::join(left_out, ", "),
        fmt::join(nodes, ", "));
    tell_second_choice(more);
    return {Decision::launch, nodes, next.lost};
  }
  log(Severity::error, "an audit found wrong bits on {}; {} nodes are left, but job {} needs {}",
      fmt::join(left_out, ", "), nodes.size(), allocation.job, needed);
  return {Decision::requeue, {}, next.lost};
} catch (const SchedulerError& error) {
  log(Severity::warning, "{}; nodes with wrong bits are not left out", error.what());
  return next;
}

}  // namespace distdl::launch
