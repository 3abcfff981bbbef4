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
  void add(const records::Row& row) {
    if (row.time > 0 && summary_.first_time == 0) summary_.first_time = row.time;
    summary_.last_time = std::max(summary_.last_time, row.time);
    row_ = &row;
    std::visit([this](const auto& record) { take(record); }, row.record);
  }
  RunSummary take_all() {
    for (auto& [rule, alert] : alerts_) summary_.alerts.push_back(std::move(alert));
    return std::move(summary_);
  }

 private:
  template <class Kind>
  void take(const Kind& /*record*/) {}
  void take(const records::Submitted& submitted) {
    add_once(summary_.jobs, submitted.job);
    add_once(summary_.waiting, submitted.job);
    if (!is_at_work()) summary_.phase = Phase::queued;
  }
  void take(const records::JobStarted& job) {
    if (is_at_work()) next_ = {"the job ended without a word", "job_lost"};
    if (!before_) before_ = Before{summary_, next_, failure_};
    add_once(summary_.jobs, job.job);
    std::erase(summary_.waiting, job.job);
    summary_.job = job.job;
    summary_.restart = job.restart;
    summary_.host = job.host;
    summary_.nodes = job.nodes;
    if (!job.distdl.empty()) summary_.distdl = job.distdl;
    if (!job.processor.empty()) summary_.processor = job.processor;
    summary_.ranks = job.ranks;
    summary_.phase = Phase::starting;
    summary_.job_end.reset();
    summary_.deadline.clear();
    summary_.failure.clear();
    summary_.failure_code.clear();
  }
  void take(const records::Requeued&) { summary_.phase = Phase::queued; }
  /// Restores the state that the job before has left, but keeps the jobs that the run has now.
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
  static Phase phase_after(std::optional<int> code) {
    return code == static_cast<int>(ExitCode::requeue) ? Phase::stopped : Phase::ended;
  }
  void take(const records::JobEnded& end) {
    if (end.is_refused && before_) return job_refused();
    if (end.code) summary_.code = end.code;
    const bool is_done = end.code == static_cast<int>(ExitCode::ok);
    if (is_done)
      summary_.phase = Phase::finished;
    else if (end.is_final)
      summary_.phase = Phase::ended;
    else if (!summary_.waiting.empty())
      summary_.phase = Phase::queued;
    else if (summary_.phase != Phase::queued)
      summary_.phase = phase_after(end.code);
    before_ = Before{summary_, next_, failure_};
  }
  void take(const records::LaunchBegan& launch) {
    summary_.product.clear();
    summary_.cluster = {};
    summary_.phase = Phase::starting;
    if (launch.ranks > 0) summary_.ranks = launch.ranks;
  }
  void take(const records::GenerationBegan& generation) {
    summary_.product.clear();
    summary_.cluster = {};
    summary_.phase = Phase::starting;
    if (next_.cause != generation.cause) next_ = {generation.cause, "stop"};  // no failure: more nodes, or others
    if (generation.ranks > 0) summary_.ranks = generation.ranks;
  }
  void take(const records::ProductChosen& chosen) {
    summary_.product = chosen.reason;
    summary_.cluster = {chosen.servers, chosen.workers, chosen.hosts};
  }
  void take(const records::LaunchEnded& end) {
    if (end.code) summary_.code = end.code;
    summary_.phase = is_planned(end) ? Phase::stopping : Phase::down;
    summary_.cause = end.cause;
    if (!is_planned(end)) next_ = {end.cause, end.cause_code};
  }
  void take(const records::NodeLost&) { next_ = {"node lost", "node_lost"}; }
  void take(const records::GenerationFailed& failure) {
    summary_.phase = Phase::down;
    next_ = {failure.cause.empty() ? "node lost" : failure.cause, failure.cause_code};
    failure_ = {.kind = failure.kind, .node = failure.node, .rank = failure.rank, .found = row_->time};
  }
  void take(const records::RunFailed& failed) {
    summary_.failure = failed.cause;
    summary_.failure_code = failed.cause_code;
  }
  void take(const records::DeadlineKnown& deadline) {
    if (deadline.end && *deadline.end > 0) summary_.job_end = deadline.end;
    summary_.deadline = deadline.reason;
  }
  void take(const records::CheckpointSaved& checkpoint) { saved(checkpoint, summary_.checkpoint); }
  void take(const records::SnapshotKept& snapshot) { saved(snapshot, summary_.snapshot); }
  void take(const records::ResourcesUsed& used) { summary_.resources = used; }
  void take(const records::SharesKnown& known) {
    shared(summary_.shares, known, {known.shares.begin(), known.shares.end()}, known.microbatch_seconds);
  }
  void take(const records::RangesKnown& known) {
    shared(summary_.ranges, known, known.elements, known.element_seconds);
  }
  void take(const records::RanksDisturbed& disturbed) {
    summary_.disturbed = {disturbed.measurements, disturbed.hosts};
  }
  void take(const records::NodeAtRisk& node) { add_once(summary_.at_risk, node.host + " (" + node.cause + ")"); }
  void take(const records::AlertRaised& alert) { alerts_[alert.rule] = alert.when + ": " + alert.cause; }
  void take(const records::AlertCleared& alert) { alerts_.erase(alert.rule); }
  void take(const records::StillTraining& training) {
    if (training.step) summary_.step = training.step;
  }
  void take(const records::CancelRequested& request) { requested_ = request.reason; }
  void take(const records::RequeueRequested& request) { requested_ = request.reason; }
  /// The signal of a command of ours is named by the command.
  void take(const records::Stopped& stopped) {
    const bool is_asked = stopped.cause_code == "stop_signal" && !requested_.empty();
    next_ = {is_asked ? requested_ : stopped.reason, stopped.cause_code};
    summary_.phase = Phase::stopping;
    forget_snapshots();
    if (stopped.step) summary_.step = stopped.step;
  }
  void take(const records::Corrupted&) { forget_snapshots(); }
  void take(const records::Finished& finished) {
    summary_.phase = Phase::stopping;
    forget_snapshots();
    summary_.early = finished.early;
    if (finished.step) summary_.step = finished.step;
  }
  template <class Save>
  void saved(const Save& save, std::optional<SaveSummary>& newest) {
    if (!save.step) return;
    newest = {*save.step, row_->time, save.seconds};
    for (const auto& level : save.levels) {
      auto known = std::ranges::find(summary_.levels, level, &LevelSummary::level);
      if (known == summary_.levels.end()) known = summary_.levels.insert(known, {level, *save.step});
      known->step = *save.step;
      known->time = row_->time;
    }
  }
  /// Ranks that end well remove them, and so do those that do not trust them.
  void forget_snapshots() {
    summary_.snapshot.reset();
    summary_.levels.clear();
  }
  template <class Known>
  void shared(ShareSummary& shares, const Known& known, std::vector<std::int64_t> parts,
              const std::vector<double>& seconds) {
    if (parts.empty()) return;
    shares.time = row_->time;
    shares.moves += known.moved;
    shares.shares = std::move(parts);
    shares.microbatch_seconds = seconds;
    shares.hosts = known.hosts;
    if (known.went_back.empty()) return;
    ++shares.back;
    shares.went_back = known.went_back;
  }
  void take(const records::Started& started) {
    const LaunchFailure next = std::exchange(next_, {});
    requested_.clear();
    const Step first = started.resumed_from.value_or(Step(0));
    RestartSummary restart = std::exchange(failure_, {});
    restart.time = row_->time;
    restart.cause = next.cause.empty() ? "unknown" : next.cause;
    restart.cause_code = next.cause_code.empty() ? "unknown" : next.cause_code;
    restart.start = row_->start;
    restart.resumed_from = first;
    restart.repeated = started.steps_repeated;
    if (started.interrupted) summary_.restarts.push_back(std::move(restart));
    before_.reset();
    summary_.phase = Phase::training;
    summary_.start = row_->start;
    if (!started.backend.empty()) summary_.backend = started.backend;
    summary_.step = first;
    // A restore removes all other snapshots, and one from the file system all.
    if (started.resumed_source == "the file system") forget_snapshots();
    std::erase_if(summary_.levels, [this](const auto& level) { return level.step != summary_.step; });
    if (summary_.snapshot && summary_.snapshot->step != summary_.step) summary_.snapshot.reset();
    summary_.shares = {};
    summary_.ranges = {};
    summary_.disturbed = {};
    summary_.compute = started.compute;
    summary_.resources.reset();
    summary_.at_risk.clear();
    summary_.early.clear();
    if (started.world_size > 0) summary_.ranks = started.world_size;
    if (started.total_steps) summary_.total = started.total_steps;
  }
  bool is_at_work() const {
    return summary_.phase == Phase::starting || summary_.phase == Phase::training || summary_.phase == Phase::down;
  }

  /// State before a job that has not trained yet.
  struct Before {
    RunSummary summary;
    LaunchFailure next;
    RestartSummary failure;
  };

  RunSummary summary_;
  const records::Row* row_ = nullptr;  ///< the row that is being added
  std::optional<Before> before_;       ///< at the end of the last job, or at the start of one that followed a lost job;
                                       ///< none: ranks have trained since
  std::map<std::int64_t, std::string> alerts_;  ///< alerts that hold, by the numbers of their rules
  LaunchFailure next_;                          ///< the cause of the next restart
  RestartSummary failure_;                      ///< what is known of its failure
  std::string requested_;                       ///< who asked for a stop since the last start: "distdl requeue"
};

/// The journal of 0.1 has no end of a job.
void settle_old(RunSummary& summary, const std::vector<records::Row>& journal) {
  const bool has_jobs = std::any_of(journal.begin(), journal.end(), [](const records::Row& row) {
    return row.is<records::JobStarted, records::Submitted>();
  });
  if (has_jobs || journal.empty()) return;
  if (journal.back().is<records::Finished>()) summary.phase = Phase::finished;
  if (journal.back().is<records::Stopped>()) summary.phase = Phase::stopped;
}

std::optional<EvaluationSummary> evaluation_in(const records::Row& row) {
  const auto* const evaluated = row.as<records::Evaluated>();
  if (!evaluated || !evaluated->loss) return std::nullopt;
  return EvaluationSummary{evaluated->step, row.time, *evaluated->loss, evaluated->accuracy};
}

void add_metrics(RunSummary& summary, const std::vector<records::Row>& metrics) {
  struct Place {
    const records::StepDone* done;
    const records::Row* row;
  };
  std::optional<Place> first, last;
  std::vector<double> mfu, hfu;
  for (const records::Row& row : metrics) {
    if (auto evaluation = evaluation_in(row)) summary.evaluation = evaluation;
    const auto* const done = row.as<records::StepDone>();
    if (!done || !done->loss) continue;
    if (last && (done->step <= last->done->step || row.start != last->row->start)) {  // another start
      first.reset();
      mfu.clear();
      hfu.clear();
    }
    last = Place{done, &row};
    if (!first) first = last;
    if (done->mfu) mfu.push_back(*done->mfu);
    if (done->hfu) hfu.push_back(*done->hfu);
  }
  if (!last) return;
  if (!mfu.empty()) summary.mfu = median(std::move(mfu));
  if (!hfu.empty()) summary.hfu = median(std::move(hfu));
  const double first_time = first->row->time, last_time = last->row->time;
  summary.loss = last->done->loss;
  const bool is_newer = last_time == 0 || summary.phase == Phase::training || !summary.step;
  if (is_newer && (!summary.step || last->done->step > *summary.step)) summary.step = last->done->step;
  summary.last_time = std::max(summary.last_time, last_time);
  if (last_time > first_time && first_time > 0)
    summary.steps_per_second =
        static_cast<double>(last->done->step.value - first->done->step.value) / (last_time - first_time);
}
}  // namespace

RunSummary summarize(const std::vector<records::Row>& journal, const std::vector<records::Row>& metrics) {
  Summarizer summarizer;
  for (const records::Row& row : journal) summarizer.add(row);
  RunSummary summary = summarizer.take_all();
  settle_old(summary, journal);
  add_metrics(summary, metrics);
  return summary;
}

RunSummary summarize_run(const std::filesystem::path& run_folder) {
  std::vector<records::Row> metrics;
  for_each_record(
      run_folder / "metrics.jsonl", [&](const records::Row& row) { metrics.push_back(row); }, kTailOfMetrics);
  return summarize(read_journal(run_folder), metrics);
}

std::optional<EvaluationSummary> find_evaluation(const std::filesystem::path& run_folder) {
  constexpr std::size_t kFirstLook = 1 << 20, kLastLook = 16 << 20;  // bytes
  std::optional<EvaluationSummary> newest;
  for (std::size_t most : {kFirstLook, kLastLook}) {
    for_each_record(
        run_folder / "metrics.jsonl",
        [&](const records::Row& row) {
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
