// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include <distdl/base/exit_codes.hpp>
#include <distdl/base/median.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::observe {
namespace {
constexpr std::size_t kTailOfMetrics = 16 << 10;  ///< bytes: some dozens of rows

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

/// Reads a journal row by row.
class Summarizer {
 public:
  void add(const Record& row) {
    if (row.time > 0 && summary_.first_time == 0) summary_.first_time = row.time;
    summary_.last_time = std::max(summary_.last_time, row.time);
    add_job(row);
    add_launch(row);
    add_training(row);
    if (row.event == "deadline") {
      if (row.end > 0) summary_.job_end = row.end;
      summary_.deadline = row.reason;
    }
  }
  RunSummary take() {
    for (auto& [rule, alert] : alerts_) summary_.alerts.push_back(std::move(alert));
    return std::move(summary_);
  }

 private:
  void add_job(const Record& row) {
    if (row.event == "submitted") {
      add_once(summary_.jobs, row.job);
      add_once(summary_.waiting, row.job);
      if (!is_at_work()) summary_.phase = Phase::queued;
    } else if (row.event == "job_started") {
      job_started(row);
    } else if (row.event == "requeued") {
      summary_.phase = Phase::queued;
    } else if (row.event == "job_ended") {
      job_ended(row);
    }
  }
  void job_started(const Record& row) {
    if (is_at_work()) next_ = {"the job ended without a word", "job_lost"};
    if (!before_) before_ = Before{summary_, next_, failure_};
    add_once(summary_.jobs, row.job);
    std::erase(summary_.waiting, row.job);
    summary_.job = row.job;
    summary_.restart = row.restart;
    summary_.host = row.host;
    summary_.nodes = row.node_count;
    if (!row.distdl.empty()) summary_.distdl = row.distdl;
    if (!row.processor.empty()) summary_.processor = row.processor;
    summary_.ranks = row.ranks;
    summary_.phase = Phase::starting;
    summary_.job_end.reset();
    summary_.deadline.clear();
    summary_.failure.clear();
    summary_.failure_code.clear();
  }
  /// As the job before has left the run, but with the jobs that it has now.
  void job_refused() {
    auto jobs = std::move(summary_.jobs), waiting = std::move(summary_.waiting);
    const double last_time = summary_.last_time;
    summary_ = before_->summary;
    summary_.jobs = std::move(jobs);
    summary_.waiting = std::move(waiting);
    summary_.last_time = last_time;
    if (!summary_.waiting.empty())
      summary_.phase = Phase::queued;
    else if (summary_.phase == Phase::queued)  // for the job that is refused
      summary_.phase = phase_after(summary_.code);
    next_ = before_->next;
    failure_ = before_->failure;
  }
  static Phase phase_after(std::optional<std::int64_t> code) {
    return code == static_cast<int>(ExitCode::requeue) ? Phase::stopped : Phase::ended;
  }
  void job_ended(const Record& row) {
    if (row.is_refused && before_) return job_refused();
    if (row.code) summary_.code = static_cast<int>(*row.code);
    const bool is_done = row.code == static_cast<int>(ExitCode::ok);
    if (is_done)
      summary_.phase = Phase::finished;
    else if (row.is_final)
      summary_.phase = Phase::ended;
    else if (!summary_.waiting.empty())
      summary_.phase = Phase::queued;
    else if (summary_.phase != Phase::queued)
      summary_.phase = phase_after(row.code);
    before_ = Before{summary_, next_, failure_};
  }
  void add_launch(const Record& row) {
    if (row.event == "launch" || row.event == "generation" || row.event == "product") {
      summary_.product = row.event == "product" ? row.reason : "";
      summary_.cluster = {row.servers, row.workers, row.hosts};
    }
    if (row.event == "launch") {
      summary_.phase = Phase::starting;
      if (row.ranks > 0) summary_.ranks = row.ranks;
    } else if (row.event == "launch_ended") {
      if (row.code) summary_.code = static_cast<int>(*row.code);
      const bool on_purpose = row.was_asked || row.code == 0 || row.code == static_cast<int>(ExitCode::requeue);
      summary_.phase = on_purpose ? Phase::stopping : Phase::down;
      summary_.cause = row.cause;
      if (!on_purpose) next_ = {row.cause, cause_code_of(row)};
    } else if (row.event == "node_lost") {
      next_ = {row.cause.empty() ? "node lost" : row.cause, "node_lost"};
    } else if (row.event == "failure") {
      failed(row);
    } else if (row.event == "generation") {
      summary_.phase = Phase::starting;
      if (next_.cause != row.cause) next_ = {row.cause, "stop"};  // no failure: more nodes, or others
      if (row.ranks > 0) summary_.ranks = row.ranks;
    } else if (row.event == "failed") {
      summary_.failure = row.cause;
      summary_.failure_code = cause_code_of(row);
    }
  }
  void failed(const Record& row) {
    summary_.phase = Phase::down;
    next_ = {row.cause.empty() ? "node lost" : row.cause, cause_code_of(row)};
    failure_ = {.kind = row.kind, .node = row.node, .rank = row.rank, .found = row.time};
  }
  void add_training(const Record& row) {
    if (row.event == "started") {
      started(row);
    } else if ((row.event == "checkpoint" || row.event == "snapshot") && row.step) {
      saved(row);
    } else if (row.event == "resources") {
      summary_.resources = row.resources;
    } else if (row.event == "shares" && !row.shares.empty()) {
      shared(summary_.shares, row);
    } else if (row.event == "ranges" && !row.shares.empty()) {
      shared(summary_.ranges, row);
    } else if (row.event == "disturbed") {
      summary_.disturbed = {row.measurements, row.hosts};
    } else if (row.event == "node_at_risk") {
      add_once(summary_.at_risk, row.host + " (" + row.cause + ")");
    } else if (row.event == "alert") {
      alerts_[row.rule.value_or(0)] = row.when + ": " + row.cause;
    } else if (row.event == "alert_cleared") {
      alerts_.erase(row.rule.value_or(0));
    } else if (row.event == "stopped") {
      next_ = {row.reason, cause_code_of(row)};
      summary_.phase = Phase::stopping;
      forget_snapshots();
    } else if (row.event == "corrupted") {
      forget_snapshots();
    } else if (row.event == "finished") {
      summary_.phase = Phase::stopping;
      forget_snapshots();
      summary_.early = row.reason;
    }
    if ((row.event == "progress" || row.event == "stopped" || row.event == "finished") && row.step)
      summary_.step = Step(*row.step);
  }
  void saved(const Record& row) {
    const Step step(*row.step);
    (row.event == "checkpoint" ? summary_.checkpoint : summary_.snapshot) = {step, row.time, row.seconds};
    for (const auto& level : row.levels) {
      auto known = std::ranges::find(summary_.levels, level, &LevelSummary::level);
      if (known == summary_.levels.end()) known = summary_.levels.insert(known, {level, step});
      known->step = step;
      known->time = row.time;
    }
  }
  /// Ranks that end well remove them, and so do those that do not trust them.
  void forget_snapshots() {
    summary_.snapshot.reset();
    summary_.levels.clear();
  }
  static void shared(ShareSummary& shares, const Record& row) {
    shares.time = row.time;
    shares.moves += row.has_moved;
    shares.shares = row.shares;
    shares.microbatch_seconds = row.microbatch_seconds;
    shares.hosts = row.hosts;
    if (row.went_back.empty()) return;
    ++shares.back;
    shares.went_back = row.went_back;
  }
  void started(const Record& row) {
    const LaunchFailure next = std::exchange(next_, {});
    RestartSummary restart = std::exchange(failure_, {});
    restart.time = row.time;
    restart.cause = next.cause.empty() ? "unknown" : next.cause;
    restart.cause_code = next.cause_code.empty() ? "unknown" : next.cause_code;
    restart.start = row.start;
    restart.resumed_from = Step(row.resumed_from);
    restart.repeated = row.steps_repeated;
    if (row.interrupted) summary_.restarts.push_back(std::move(restart));
    before_.reset();
    summary_.phase = Phase::training;
    summary_.start = row.start;
    if (!row.backend.empty()) summary_.backend = row.backend;
    summary_.step = Step(row.resumed_from);
    // A restore removes all other snapshots, and one from the file system all.
    if (row.resumed_source == "the file system") forget_snapshots();
    std::erase_if(summary_.levels, [this](const auto& level) { return level.step != summary_.step; });
    if (summary_.snapshot && summary_.snapshot->step != summary_.step) summary_.snapshot.reset();
    summary_.shares = {};
    summary_.ranges = {};
    summary_.disturbed = {};
    summary_.compute = {row.flops_per_sample, std::max(row.flops_per_sample, row.hardware_flops_per_sample),
                        row.peak_flops};
    summary_.resources.reset();
    summary_.at_risk.clear();
    summary_.early.clear();
    if (row.ranks > 0) summary_.ranks = row.ranks;
    if (row.total_steps) summary_.total = Step(*row.total_steps);
  }
  bool is_at_work() const {
    return summary_.phase == Phase::starting || summary_.phase == Phase::training || summary_.phase == Phase::down;
  }

  /// What a job found that has not trained.
  struct Before {
    RunSummary summary;
    LaunchFailure next;
    RestartSummary failure;
  };

  RunSummary summary_;
  std::optional<Before> before_;  ///< at the end of the last job, or at the start of one that followed a lost job;
                                  ///< none: ranks have trained since
  std::map<std::int64_t, std::string> alerts_;  ///< that hold, by the numbers of their rules
  LaunchFailure next_;                          ///< the cause of the next restart
  RestartSummary failure_;                      ///< what is known of its failure
};

/// The journal of 0.1 has no end of a job.
void settle_old(RunSummary& summary, const std::vector<Record>& journal) {
  const bool has_jobs = std::any_of(journal.begin(), journal.end(), [](const Record& row) {
    return row.event == "job_started" || row.event == "submitted";
  });
  if (has_jobs || journal.empty()) return;
  if (journal.back().event == "finished") summary.phase = Phase::finished;
  if (journal.back().event == "stopped") summary.phase = Phase::stopped;
}

std::optional<EvaluationSummary> evaluation_in(const Record& row) {
  if (!row.step || !row.validation_loss) return std::nullopt;
  return EvaluationSummary{Step(*row.step), row.time, *row.validation_loss, row.validation_accuracy};
}

void add_metrics(RunSummary& summary, const std::vector<Record>& metrics) {
  const Record *first = nullptr, *last = nullptr;
  std::vector<double> mfu, hfu;
  for (const Record& row : metrics) {
    if (auto evaluation = evaluation_in(row)) summary.evaluation = evaluation;
    if (!row.step || !row.loss) continue;
    if (last && (*row.step <= *last->step || row.start != last->start)) {  // another start
      first = nullptr;
      mfu.clear();
      hfu.clear();
    }
    if (!first) first = &row;
    last = &row;
    if (row.mfu) mfu.push_back(*row.mfu);
    if (row.hfu) hfu.push_back(*row.hfu);
  }
  if (!last) return;
  if (!mfu.empty()) summary.mfu = median(std::move(mfu));
  if (!hfu.empty()) summary.hfu = median(std::move(hfu));
  summary.loss = last->loss;
  const bool is_newer = last->time == 0 || summary.phase == Phase::training || !summary.step;
  if (is_newer && (!summary.step || Step(*last->step) > *summary.step)) summary.step = Step(*last->step);
  summary.last_time = std::max(summary.last_time, last->time);
  if (last->time > first->time && first->time > 0)
    summary.steps_per_second = static_cast<double>(*last->step - *first->step) / (last->time - first->time);
}
}  // namespace

RunSummary summarize(const std::vector<Record>& journal, const std::vector<Record>& metrics) {
  Summarizer summarizer;
  for (const Record& row : journal) summarizer.add(row);
  RunSummary summary = summarizer.take();
  settle_old(summary, journal);
  add_metrics(summary, metrics);
  return summary;
}

RunSummary summarize_run(const std::filesystem::path& run_folder) {
  std::vector<Record> metrics;
  for_each_record(
      run_folder / "metrics.jsonl", [&](const Record& row) { metrics.push_back(row); }, kTailOfMetrics);
  return summarize(read_journal(run_folder), metrics);
}

std::optional<EvaluationSummary> find_evaluation(const std::filesystem::path& run_folder) {
  constexpr std::size_t kFirstLook = 1 << 20, kLastLook = 16 << 20;  // bytes
  std::optional<EvaluationSummary> newest;
  for (std::size_t most : {kFirstLook, kLastLook}) {
    for_each_record(
        run_folder / "metrics.jsonl",
        [&](const Record& row) {
          if (auto evaluation = evaluation_in(row)) newest = evaluation;
        },
        most);
    if (newest) break;
  }
  return newest;
}

const char* name_of(Phase phase) {
  static constexpr const char* kNames[] = {"unknown",  "queued",  "starting", "training", "recovering",
                                           "stopping", "stopped", "ended",    "finished"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace distdl::observe
