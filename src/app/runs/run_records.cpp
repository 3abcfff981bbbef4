// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <fmt/ranges.h>

#include <distdl/app/runs/avoided_nodes.hpp>
#include <distdl/app/runs/run_jobs.hpp>
#include <distdl/app/runs/run_records.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/restart.hpp>
#include <distdl/forecast/calibration.hpp>
#include <distdl/observe/run/requests.hpp>
#include <distdl/observe/run/result.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/records/causes.hpp>
#include <distdl/slurm/scheduler.hpp>
#include <distdl/version.hpp>

namespace distdl::app {
namespace {
/// Seconds since 1970; 0 if Slurm does not tell.
double submit_time_of(const slurm::Allocation& allocation) try {
  const auto record = slurm::scheduler().job(allocation.called());
  if (!record || !record->submitted) return 0;
  return std::chrono::duration<double>(record->submitted->time_since_epoch()).count();
} catch (const SchedulerError& error) {
  log(Severity::debug, "when the job was submitted is not known: {}", error.what());
  return 0;
}

/// Makes the run's identity and puts the run into the index. A failure must not end a run.
void identify(const std::filesystem::path& folder) try {
  observe::remember_run(observe::identify_run(folder), folder);
} catch (const StorageError& error) {
  log(Severity::warning, "{}; the run has no id", error.what());
}

/// Nodes of `now` in which an audit found wrong bits after `before` was read. The clocks of nodes differ: an entry is
/// new if it was not there before.
std::vector<std::string> newly_corrupt(const std::vector<observe::BadNode>& now,
                                       const std::vector<observe::BadNode>& before) {
  std::vector<std::string> names;
  for (const auto& bad : now)
    if (observe::is_corrupt(bad) && std::ranges::count(before, bad) == 0) names.push_back(bad.node);
  return names;
}
}  // namespace

RunRecords::RunRecords(const std::filesystem::path& folder, const launch::LaunchSpec& spec)
    : folder_(folder),
      journal_(folder, observe::TornLine::remove),
      chain_(env("DISTDL_CHAIN").value_or("")),
      step_at_start_(observe::read_last_step(folder)),
      starts_before_(observe::read_starts(folder).size()) {
  identify(folder);
  records::JobStarted started;
  started.host = host_name();
  started.distdl = version();
  started.processor = forecast::kind_of_this_node("").processor;
  started.chain = chain_;
  started.ranks = spec.ranks;
  started.nodes = 1;
  if (spec.allocation) {
    job_ = spec.allocation->called();
    started.job = job_;
    started.restart = spec.allocation->restart;
    started.nodes = spec.allocation->nodes;
    started.submit_time = submit_time_of(*spec.allocation);
  }
  has_ended_ = !chain_.empty() && observe::chain_has_ended(observe::read_journal(folder), chain_, job_);
  if (!has_ended_) journal_.append(started);
}

void RunRecords::attach(launch::LaunchSpec& spec, double bad_node_hours) {
  bad_node_hours_ = bad_node_hours;
  // Those that were bad before, and that the job has got all the same, it cannot do without.
  spec.wrong_nodes = [this, before = observe::read_bad_nodes(folder_)] {
    return newly_corrupt(observe::read_bad_nodes(folder_), before);
  };
  spec.ends_for_good = [this] { return observe::stop_is_requested(folder_); };
  spec.events.began = [this](int ranks, const std::vector<std::string>& nodes, const std::string& id) {
    journal_.append(records::LaunchBegan{ranks, fmt::format("{}", fmt::join(nodes, ",")), id});
  };
  spec.events.ended = [this](int code, const std::string& cause, bool told_to_stop) {
    cause_ = cause;
    journal_.append(records::LaunchEnded{code, cause, told_to_stop});
  };
  spec.events.lost_node = [this] { journal_.append(records::NodeLost{}); };
  spec.events.requeued = [this] {
    journal_.append(records::Requeued{job_});
    exclude_bad_nodes(job_, folder_, bad_node_hours_);
  };
}

void RunRecords::checked_nodes(const records::NodesChecked& event) {
  journal_.append(event);
  if (event.cause.empty() || chain_.empty()) return;
  for (const std::string& job : observe::links_after(observe::read_journal(folder_), chain_, job_))
    exclude_bad_nodes(job, folder_, bad_node_hours_);
}

/// A crash that uses up the relaunches of a job may pass until the next job of the chain; but not for ever.
bool RunRecords::is_final(int code, bool has_progressed) const {
  RestartEvidence evidence{.by_later_job = true};
  if (decide_restart(code, evidence) == RestartDecision::relaunch)
    evidence.is_stuck = !has_progressed && !chain_.empty() && link_before_failed();
  const RestartDecision decision = decide_restart(code, evidence);
  return decision == RestartDecision::finished || decision == RestartDecision::give_up;
}

bool RunRecords::link_before_failed() const {
  const auto journal = observe::read_journal(folder_);
  const records::JobEnded* before = observe::last_end_of_chain(journal, chain_);
  return before && !before->has_progressed && before->code != static_cast<int>(ExitCode::requeue);
}

/// A run that its ranks have stopped has a result.json of theirs.
void RunRecords::note_end(int code, const std::string& error, std::optional<Step> step) try {
  const bool is_stop = code == static_cast<int>(ExitCode::requeue) || code == static_cast<int>(ExitCode::stopped);
  if (is_stop && has_result()) return;
  auto result = observe::collect_result(folder_);
  result.status = is_stop ? observe::ResultStatus::stopped : observe::ResultStatus::failed;
  result.code = code;
  result.cause = cause_;
  result.cause_code = records::cause_of_exit(code);
  if (const auto failure = is_stop ? std::nullopt : observe::last_failure(observe::read_journal(folder_)))
    std::tie(result.cause, result.cause_code) = std::tie(failure->cause, failure->cause_code);
  if (!error.empty()) {
    result.cause = error;
    result.cause_code = records::cause_of_exit(code);
  }
  if (!is_stop) journal_.append(records::RunFailed{job_, step, code, result.cause, result.cause_code});
  if (!is_refused(code)) observe::write_result(folder_, result);
} catch (const StorageError& failed) {
  // A run that ends because the file system refuses has said so.
  log(code == static_cast<int>(ExitCode::storage) ? Severity::debug : Severity::warning,
      "{}; how the run ended is not in its result.json", failed.what());
}

bool RunRecords::has_result() const try {
  return observe::read_result(folder_).status == observe::ResultStatus::stopped;
} catch (const StorageError&) {
  return false;
}

bool RunRecords::is_refused(int code) const {
  const bool is_impossible =
      code == static_cast<int>(ExitCode::config) || code == static_cast<int>(ExitCode::incompatible);
  return is_impossible && starts_before_ > 0 && observe::read_starts(folder_).size() == starts_before_;
}

void RunRecords::ended(int code, const std::string& error) {
  const auto step = observe::read_last_step(folder_);
  const bool has_progressed = step && (!step_at_start_ || *step > *step_at_start_);
  const bool final = is_final(code, has_progressed);
  const bool folder_is_anothers = code == static_cast<int>(ExitCode::superseded);
  const bool refused = is_refused(code);
  if (code != 0 && !folder_is_anothers) note_end(code, error, step);
  journal_.append(records::JobEnded{job_, chain_, code, final, has_progressed, refused});
  if (final) observe::drop_requests(folder_);  // they were acted on, or came too late
  if (final && !chain_.empty()) cancel_rest_of_chain();
}

/// Where that is not possible, as in a container without Slurm's commands, each link sees at its start that the run has
/// ended.
void RunRecords::cancel_rest_of_chain() const {
  for (const std::string& job : observe::links_after(observe::read_journal(folder_), chain_, job_)) try {
      require_job_of_run(folder_, job);
      slurm::scheduler().cancel(job);
      log(Severity::info, "job {} of the chain is cancelled: the run has ended", job);
    } catch (const Error& error) {
      log(Severity::warning, "{}; job {} of the chain will see that the run has ended", error.what(), job);
    }
}

}  // namespace distdl::app
