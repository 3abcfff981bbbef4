// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/ranges.h>

#include <distdl/agent/processes.hpp>
#include <distdl/app/checks/node_verdicts.hpp>
#include <distdl/app/runs/avoided_nodes.hpp>
#include <distdl/app/runs/preflight.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/files/private_folder.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Verdicts = std::vector<NodeVerdict>;

constexpr Milliseconds kStepGrace = 5s;  ///< for srun to end its step
constexpr Milliseconds kLateFiles = 3s, kPauseForFiles = 100ms;
constexpr std::size_t kLongestReport = 1 << 16;  ///< bytes

/// A folder that all nodes see, as long as this object exists.
class ReportFolder {
 public:
  explicit ReportFolder(const fs::path& run_folder)
      : folder_(PrivateFolder::make(run_folder / "launches" / ("preflight-" + random_hex(4)))) {}
  ~ReportFolder() {
    try {
      folder_.remove();
    } catch (const StorageError& error) {
      log(Severity::warning, "{}", error.what());
    }
  }
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  const fs::path& path() const { return folder_.path(); }
  std::vector<NodeCheckReport> reports(const Names& nodes) const {
    std::vector<NodeCheckReport> all;
    for (const auto& node : nodes)
      if (auto report = report_of(node)) all.push_back(*std::move(report));
    return all;
  }

 private:
  std::optional<NodeCheckReport> report_of(const std::string& node) const try {
    return node_report_from(folder_.read(node + ".json", kLongestReport));
  } catch (const StorageError&) {
    return std::nullopt;  // it has not reported
  }

  PrivateFolder folder_;
};

Names command_of(const launch::LaunchSpec& spec, const fs::path& folder) {
  Names command = spec.worker;
  command.at(1) = "preflight";
  command.insert(command.end(),
                 {"--into", folder.string(), "--devices", std::to_string(launch::ranks_on_a_node(spec))});
  if (!spec.allocation) return command;
  return launch::srun_on_each_node(spec, "distdl-preflight", command);
}

/// One look at all nodes.
Verdicts look(const launch::LaunchSpec& spec, const launch::Options& options, const Names& nodes) {
  const ReportFolder folder(spec.checkpoints.parent_path());
  const auto limit = std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(options.preflight_seconds));
  const auto result = slurm::ask(command_of(spec, folder.path()), limit, kStepGrace);
  if (result.exit_code != 0)
    log(Severity::warning, "pre-flight: {} {}", spec.allocation ? "srun" : "the check", slurm::cause_of(result, limit));
  auto reports = folder.reports(nodes);
  // All tasks have ended well: what is missing, a network file system does not show yet.
  const auto end = Deadline::after(kLateFiles);
  while (result.exit_code == 0 && reports.size() < nodes.size() && !end.expired()) {
    std::this_thread::sleep_for(kPauseForFiles);
    reports = folder.reports(nodes);
  }
  return judge_nodes(nodes, reports, options.slow_node_share);
}

bool all_are(const Verdicts& verdicts, NodeHealth health) {
  return std::all_of(verdicts.begin(), verdicts.end(), [&](const auto& one) { return one.health == health; });
}

/// A node may just have been busy at the first look.
Verdicts look_twice(const launch::LaunchSpec& spec, const launch::Options& options, const Names& nodes) {
  auto verdicts = look(spec, options, nodes);
  if (all_are(verdicts, NodeHealth::ok) || stop_is_pending()) return verdicts;
  return confirm(verdicts, look(spec, options, nodes));
}

/// How many nodes the job cannot do without.
std::size_t nodes_needed(const launch::LaunchSpec& spec) {
  if (!spec.allocation) return 1;
  return static_cast<std::size_t>(launch::nodes_needed(spec, slurm::fewest_nodes(*spec.allocation)));
}

Names names_of(const Verdicts& verdicts) {
  Names names;
  for (const auto& verdict : verdicts) names.push_back(verdict.node);
  return names;
}

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Names without(Names names, const Names& excluded) {
  std::erase_if(names, [&](const auto& name) { return has(excluded, name); });
  return names;
}

void tell(const Verdicts& verdicts, const Names& excluded, double seconds) {
  const auto unmeasured = unmeasured_links(verdicts);
  const bool all_well = all_are(verdicts, NodeHealth::ok) && unmeasured.empty();
  const auto severity = all_well ? Severity::info : Severity::warning;
  log(severity, "pre-flight of {} node{} in {:.1f} s: {}", verdicts.size(), verdicts.size() == 1 ? "" : "s", seconds,
      all_well ? "all well" : "not all well");
  for (const auto& line : table_of(verdicts)) log(severity, "{}", line);
  if (!unmeasured.empty()) log(Severity::warning, "{}; the run goes on without that", unmeasured);
  for (const auto& verdict : verdicts)
    if (has(excluded, verdict.node))
      log(Severity::warning, "{} is left out", verdict.node);
    else if (verdict.health == NodeHealth::slow || verdict.health == NodeHealth::silent)
      log(Severity::warning, "{} is used all the same: the job cannot do without it", verdict.node);
}

/// "n2: computes other gradients than 2 nodes of its kind"
std::string causes_of(const Verdicts& verdicts) {
  Names causes;
  for (const auto& verdict : verdicts)
    if (verdict.health != NodeHealth::ok) causes.push_back(verdict.node + ": " + verdict.cause);
  return fmt::format("{}", fmt::join(causes, "; "));
}

Verdicts wrong_ones(const Verdicts& verdicts, const Names& without = {}) {
  Verdicts wrong;
  for (const auto& verdict : verdicts)
    if (verdict.health == NodeHealth::wrong && !has(without, verdict.node)) wrong.push_back(verdict);
  return wrong;
}

bool was_wrong(const observe::BadNode& bad) {
  const auto was = [&](NodeHealth health) {
    return bad.cause.starts_with(fmt::format("{}: ", OneOf<NodeHealth>(health).name()));
  };
  return !was(NodeHealth::slow) && !was(NodeHealth::silent);
}

/// Slow and silent nodes may be used again where the job cannot do without them; `is_wrong` tells the others.
template <typename IsWrong>
void leave_out(launch::LaunchSpec& spec, const Names& nodes, const Names& excluded, const IsWrong& is_wrong) {
  if (excluded.empty()) return;
  spec = launch::on_nodes(spec, without(nodes, excluded));
  std::copy_if(excluded.begin(), excluded.end(), std::back_inserter(spec.second_choice), std::not_fn(is_wrong));
}

/// Bad nodes of earlier starts, as far as the job can do without them.
void leave_out_known(launch::LaunchSpec& spec, const config::Job& job) {
  const Names nodes = slurm::nodes_of(*spec.allocation);
  auto known = nodes_in_cool_down(job.run_dir, job.launch.bad_node_hours);
  std::erase_if(known, [&](const auto& bad) { return !has(nodes, bad.node); });
  if (known.empty()) return;
  const Names excluded = choose_avoided(known, {nodes, {}}, "", nodes_needed(spec));
  for (const auto& bad : known)
    if (has(excluded, bad.node))
      log(Severity::warning, "{} is left out, as it was by an earlier start ({}); for {:g} h (run.bad_node_hours)",
          bad.node, bad.cause, job.launch.bad_node_hours);
  leave_out(spec, nodes, excluded, [&](const auto& name) {
    return std::any_of(known.begin(), known.end(), [&](const auto& bad) { return bad.node == name && was_wrong(bad); });
  });
}

/// Whether Slurm would give the job other nodes than these.
bool has_others(const launch::LaunchSpec& spec, const config::Job& job, const Names& wrong) try {
  const auto record = slurm::scheduler().job(spec.allocation->called());
  const auto needed = slurm::fewest_nodes(*spec.allocation);
  if (!record || !needed) return false;
  const auto avoided = nodes_to_avoid(job.run_dir, job.launch.bad_node_hours, record->partition, record->excluded_nodes,
                                      static_cast<std::size_t>(*needed));
  return std::all_of(wrong.begin(), wrong.end(), [&](const auto& node) { return has(avoided, node); });
} catch (const SchedulerError&) {
  return false;
}

/// Once in the life of a job: if that does not help, more of it would not either.
bool may_requeue(const launch::LaunchSpec& spec, const config::Job& job) {
  if (!spec.allocation || !job.launch.requeue) return false;
  const auto known = observe::read_bad_nodes(job.run_dir);
  return std::none_of(known.begin(), known.end(),
                      [&](const auto& bad) { return bad.job == spec.allocation->called(); });
}

/// Whether the job was requeued, on others than these wrong ones.
bool requeue_elsewhere(const launch::LaunchSpec& spec, const config::Job& job, agent::SupervisorSignals& signals,
                       const Names& wrong) {
  if (!has_others(spec, job, wrong) || !launch::requeue_job(*spec.allocation, job.launch, signals)) return false;
  if (spec.events.requeued) spec.events.requeued();
  return true;
}

[[noreturn]] void refuse(const Verdicts& wrong) {
  throw SchedulerError(fmt::format(
      "{}; the job has no other nodes to use instead: ask for more (run.spares, sbatch --nodes=MIN-MAX), or "
      "for others (sbatch --exclude={})",
      causes_of(wrong), fmt::join(names_of(wrong), ",")));
}

/// For later starts, and for Slurm.
void note(const launch::LaunchSpec& spec, const config::Job& job, const Verdicts& verdicts, const Names& excluded) {
  if (!spec.allocation) return;
  for (const auto& verdict : verdicts)
    if (verdict.health == NodeHealth::wrong || has(excluded, verdict.node))
      observe::note_bad_node(
          job.run_dir, {verdict.node, fmt::format("{}: {}", OneOf<NodeHealth>(verdict.health).name(), verdict.cause),
                        spec.allocation->called()});
}

/// Slurm takes lost nodes out of a job for good (--no-kill), and a later start in the same job would wait for them in
/// vain. False: too few are left, and the job goes back to the queue.
bool leave_out_lost(launch::LaunchSpec& spec, const config::Job& job, agent::SupervisorSignals& signals) try {
  const slurm::Allocation& allocation = *spec.allocation;
  const auto record = slurm::scheduler().job(allocation.called());
  if (!record || !record->is_alive()) return true;
  const Names nodes = slurm::nodes_of(allocation), left = slurm::expand_host_list(record->node_list);
  if (left.empty() || left.size() >= nodes.size()) return true;
  const auto needed = nodes_needed(spec);
  log(Severity::warning, "Slurm has left {} of {} nodes to job {}, which needs {}: {}", left.size(), nodes.size(),
      allocation.job, needed, fmt::join(left, ", "));
  if (left.size() >= needed) {
    spec = launch::on_nodes(spec, left);
    return true;
  }
  if (job.launch.requeue && launch::requeue_job(allocation, job.launch, signals) && spec.events.requeued)
    spec.events.requeued();
  return false;
} catch (const SchedulerError& error) {
  log(Severity::warning, "{}; all nodes of the job are used, whether it still has them or not", error.what());
  return true;
}

bool is_wanted(const launch::LaunchSpec& spec, const launch::Options& options) {
  if (options.preflight == launch::Preflight::off) return false;
  if (!spec.allocation) return options.preflight == launch::Preflight::always;
  return !spec.allocation->node_list.empty();
}
}  // namespace

bool check_nodes(launch::LaunchSpec& spec, const config::Job& job, agent::SupervisorSignals& signals,
                 RunRecords& records) {
  if (spec.allocation && !spec.allocation->node_list.empty() && !leave_out_lost(spec, job, signals)) return false;
  if (!is_wanted(spec, job.launch)) return true;
  if (spec.allocation) leave_out_known(spec, job);
  const Names nodes = spec.allocation ? slurm::nodes_of(*spec.allocation) : Names{host_name()};
  const Stopwatch watch;
  const auto verdicts = look_twice(spec, job.launch, nodes);
  if (stop_is_pending()) return true;
  if (all_are(verdicts, NodeHealth::silent)) {
    log(Severity::warning, "no node has done the pre-flight: they are used unchecked");
    return true;
  }
  Names excluded;
  if (!all_are(verdicts, NodeHealth::ok)) excluded = names_of(choose_excluded(verdicts, nodes_needed(spec)));
  tell(verdicts, excluded, watch.seconds());
  const bool requeues = may_requeue(spec, job);
  note(spec, job, verdicts, excluded);
  records.checked_nodes(
      {static_cast<int>(nodes.size()), watch.seconds(), excluded, causes_of(verdicts), unmeasured_links(verdicts)});
  if (const auto wrong = wrong_ones(verdicts, excluded); !wrong.empty()) {
    if (requeues && requeue_elsewhere(spec, job, signals, names_of(wrong))) return false;
    refuse(wrong);
  }
  leave_out(spec, nodes, excluded, [all = names_of(wrong_ones(verdicts))](const auto& name) { return has(all, name); });
  return true;
}

}  // namespace distdl::app
