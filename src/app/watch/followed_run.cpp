// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/app/watch/followed_run.hpp>
#include <distdl/app/watch/timeline.hpp>
#include <distdl/base/median.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::app {
namespace {
using observe::Bucket;
using observe::MetricsRow;
using observe::Phase;
using observe::Record;

constexpr std::size_t kRecentRows = 65;
constexpr std::size_t kMostEntries = 1000;  // of the timeline
constexpr std::size_t kMostSaves = 100;

/// Only the newest of these tells what a run does now.
bool is_replaced_by_the_next(const Record& event) {
  static constexpr std::array kEvents{"progress",     "checkpoint",  "snapshot",        "deadline",
                                      "audited",      "disturbed",   "shares",          "ranges",
                                      "save_skipped", "save_failed", "snapshot_failed", "resources"};
  return std::find(kEvents.begin(), kEvents.end(), event.event) != kEvents.end() && !event.has_moved;
}

template <class Row>
void push_bounded(std::vector<Row>& rows, Row row, std::size_t most) {
  rows.push_back(std::move(row));
  if (rows.size() > most) rows.erase(rows.begin());
}

template <double MetricsRow::*Member>
double mean_of(const std::deque<MetricsRow>& rows) {
  double sum = 0;
  for (const auto& row : rows) sum += row.*Member;
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

/// The form in which summaries take rows of metrics.jsonl.
Record record_of(const MetricsRow& row) {
  Record record;
  record.time = row.time;
  record.step = row.step;
  record.loss = row.loss;
  record.samples_per_s = row.samples_per_s;
  record.mfu = row.mfu;
  record.hfu = row.hfu;
  return record;
}

void add_point(Curve& curve, std::int64_t step, const std::optional<double>& value) {
  if (value) curve.add(step, *value);
}
}  // namespace

void RunStory::keep(const Record& event) {
  for (std::size_t i = journal_.size(); i-- > 1 && is_replaced_by_the_next(journal_[i]);)
    if (journal_[i].event == event.event && journal_[i].levels == event.levels) {
      journal_.erase(journal_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  journal_.push_back(event);
}

void RunStory::add(const Record& event) {
  keep(event);
  ledger_.add(event);
  paces_.add(event);
  if (event.event == "progress" && event.step && event.memory_bytes > 0)
    curves_.memory.add(*event.step, event.memory_bytes);
  if (event.event == "started") started(event);
  if (event.event == "checkpoint" || event.event == "snapshot") saved(event);
  failed_saves_ += event.event == "save_failed";
  skipped_saves_ += event.event == "save_skipped";
  if (auto entry = timeline_entry_of(event)) push_bounded(timeline_, std::move(*entry), kMostEntries);
}

void RunStory::started(const Record& event) {
  if (!seconds_before_) seconds_before_ = ledger_.finish(std::nullopt).wall();
  start_ = event;
  recent_.clear();
  last_step_ = event.resumed_from;
}

void RunStory::saved(const Record& event) {
  if (!event.step) return;
  const bool is_snapshot = event.event == "snapshot";
  auto& totals = is_snapshot ? snapshots_ : checkpoints_;
  ++totals.count;
  totals.bytes += event.bytes;
  totals.seconds += event.seconds;
  totals.stall_seconds += event.stall_seconds;
  (is_snapshot ? curves_.snapshot_seconds : curves_.checkpoint_seconds).add(*event.step, event.seconds);
  (is_snapshot ? curves_.snapshot_stall : curves_.checkpoint_stall).add(*event.step, event.stall_seconds);
  if (!is_snapshot) curves_.checkpoint_bytes.add(*event.step, event.bytes);
  push_bounded(saves_,
               {.is_snapshot = is_snapshot,
                .step = *event.step,
                .time = event.time,
                .seconds = event.seconds,
                .stall_seconds = event.stall_seconds,
                .bytes = event.bytes,
                .levels = event.levels},
               kMostSaves);
}

void RunStory::add(const MetricsRow& row) {
  ledger_.add(record_of(row));
  add_point(curves_.validation_loss, row.step, row.validation_loss);
  add_point(curves_.validation_accuracy, row.step, row.validation_accuracy);
  if (row.is_evaluation()) return;
  // The row of a start may be lost, or come later.
  if (row.step <= last_step_ || (!recent_.empty() && recent_.back().start != row.start)) recent_.clear();
  const auto steps = static_cast<double>(std::max<std::int64_t>(0, row.step - last_step_));
  if (start_) {
    steps_ += steps;
    rank_steps_ += steps * static_cast<double>(start_->ranks);
  }
  last_step_ = row.step;
  add_step(row);
  recent_.push_back(row);
  if (recent_.size() > kRecentRows) recent_.pop_front();
}

void RunStory::add_step(const MetricsRow& row) {
  add_point(curves_.loss, row.step, row.loss);
  add_point(curves_.accuracy, row.step, row.accuracy);
  add_point(curves_.speed, row.step, row.samples_per_s);
  add_point(curves_.learning_rate, row.step, row.learning_rate);
  add_point(curves_.gradient_norm, row.step, row.gradient_norm);
  add_point(curves_.mfu, row.step, row.mfu);
  add_point(curves_.hfu, row.step, row.hfu);
  curves_.data_wait.add(row.step, row.waited_seconds);
  curves_.sum_wait.add(row.step, row.sum_waited_seconds);
  curves_.pipeline_wait.add(row.step, row.pipeline_waited_seconds);
}

void RunStory::add_older(const std::vector<MetricsRow>& evaluations) {
  const auto insert = [&evaluations](Curve& curve, std::optional<double> MetricsRow::*value) {
    const Curve known = std::exchange(curve, {});
    const auto first = evaluations.front().step;
    auto point = known.points().begin();
    for (; point != known.points().end() && point->step < first; ++point) curve.add(point->step, point->value);
    for (const auto& row : evaluations) add_point(curve, row.step, row.*value);
    for (; point != known.points().end(); ++point)
      if (curve.points().empty() || point->step > curve.points().back().step) curve.add(point->step, point->value);
  };
  insert(curves_.validation_loss, &MetricsRow::validation_loss);
  insert(curves_.validation_accuracy, &MetricsRow::validation_accuracy);
}

observe::RunSummary RunStory::summary() const {
  std::vector<Record> metrics;
  for (const auto& row : recent_) metrics.push_back(record_of(row));
  return observe::summarize(journal_, metrics);
}

double RunStory::median_step_seconds() const {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < recent_.size(); ++i) {
    const auto steps = static_cast<double>(recent_[i].step - recent_[i - 1].step);
    if (recent_[i - 1].time > 0 && steps > 0) seconds.push_back((recent_[i].time - recent_[i - 1].time) / steps);
  }
  return seconds.empty() ? 0 : std::max(0.0, median(std::move(seconds)));
}

/// Rank 0 tells of its waits in each step; of the others is known how long they compute.
std::vector<RankPhases> RunStory::phases(const observe::RunSummary& summary, double step_seconds) const {
  std::vector<RankPhases> ranks;
  if (step_seconds <= 0) return ranks;
  double stall_seconds = 0;
  for (const auto& save : saves_)
    if (save.time > recent_.front().time && save.time <= recent_.back().time) stall_seconds += save.stall_seconds;
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, recent_.back().step - recent_.front().step));
  const auto& shares = summary.shares;
  for (std::size_t r = 0; r < std::max<std::size_t>(1, shares.shares.size()); ++r) {
    RankPhases rank{.rank = static_cast<std::int64_t>(r), .save = stall_seconds / steps};
    double rest = step_seconds;
    const auto take = [&rest](double seconds) {
      const double taken = std::clamp(seconds, 0.0, rest);
      rest -= taken;
      return taken;
    };
    const bool is_known = r < shares.shares.size();
    if (is_known) {
      rank.host = shares.hosts[r];
      rank.compute = take(static_cast<double>(shares.shares[r]) * shares.microbatch_seconds[r]);
    }
    if (r == 0) {
      rank.data = take(mean_of<&MetricsRow::waited_seconds>(recent_));
      rank.sum = take(mean_of<&MetricsRow::sum_waited_seconds>(recent_) +
                      mean_of<&MetricsRow::pipeline_waited_seconds>(recent_));
      (is_known ? rank.other : rank.compute) = rest;
    } else {
      rank.sum = rest;
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

Pace RunStory::pace(const RunView& view) const {
  const auto& summary = view.report.summary;
  Pace pace;
  pace.step = summary.step ? summary.step->value : 0;
  pace.total = summary.total ? summary.total->value : 0;
  pace.ranks = summary.ranks;
  pace.training_seconds = view.ledger[Bucket::training] + view.ledger[Bucket::save_stall];
  if (pace.step > 0) pace.run_step_seconds = pace.training_seconds / static_cast<double>(pace.step);
  if (steps_ > 0) pace.run_ranks = rank_steps_ / steps_;
  if (start_ && !recent_.empty()) {
    pace.start_steps = recent_.back().step - start_->resumed_from;
    pace.start_seconds = recent_.back().time - start_->time;
  }
  if (seconds_before_) pace.lost_seconds = std::max(0.0, view.ledger.wall() - *seconds_before_ - pace.training_seconds);
  const auto& job = view.report.job;
  if (job && job->state == "PENDING" && job->start) pace.wait_seconds = std::max(0.0, *job->start - view.now);
  return pace;
}

void RunStory::fill(RunView& view) const {
  const auto& state = view.report.state;
  view.curves = curves_;
  view.nodes = paces_.nodes();
  view.timeline = timeline_;
  view.saves = saves_;
  view.checkpoints = checkpoints_;
  view.snapshots = snapshots_;
  view.failed_saves = failed_saves_;
  view.skipped_saves = skipped_saves_;
  view.step_seconds = median_step_seconds();
  std::vector<double> speeds;
  for (const auto& row : recent_)
    if (row.samples_per_s) speeds.push_back(*row.samples_per_s);
  if (!speeds.empty()) view.samples_per_s = median(std::move(speeds));
  view.ranks = phases(view.report.summary, view.step_seconds);
  view.ledger = ledger_.finish(state.is_live ? std::optional(view.now) : std::nullopt);
  view.estimate = state.is_live ? estimate(pace(view)) : Estimate{.reason = state.word};
}

void FollowedRun::read(double now) {
  auto news = follower_.poll();
  if (news.begins_again) story_ = {};
  auto event = news.journal.begin();
  for (const auto& row : news.metrics) {
    // Rows of 0.1 have no time.
    for (; event != news.journal.end() && (event->time < row.time || row.time == 0); ++event) story_.add(*event);
    story_.add(row);
  }
  for (; event != news.journal.end(); ++event) story_.add(*event);
  if (!news.evaluations.empty()) story_.add_older(news.evaluations);
  constexpr double kEvery = 10;  // seconds: the states of many nodes are many files
  if (now < next_report_) return;
  next_report_ = now + kEvery;
  report_ = make_report(folder_, {}, {});
}

std::vector<std::string> FollowedRun::jobs() const {
  const auto summary = story_.summary();
  if (summary.phase == Phase::finished || summary.phase == Phase::ended) return {};
  return jobs_of_interest(summary);
}

RunView FollowedRun::view(double now) const {
  RunView view{.report = report_, .now = now, .is_read = true};
  auto& report = view.report;
  report.summary = story_.summary();
  const auto lock = look_at_lock(folder_);
  report.job = current_job(report.summary, jobs_);
  report.state = state_of(report.summary, lock ? std::optional(lock->age) : std::nullopt, report.job);
  report.holder = lock && report.state.is_live ? lock->holder : std::nullopt;
  report.jobs = jobs_;
  story_.fill(view);
  return view;
}

std::string places_text(const SaveView& save) {
  auto places = save.levels;
  if (!save.is_snapshot) places.insert(places.begin(), "file system");
  return places.empty() ? "nodes" : fmt::format("{}", fmt::join(places, ", "));
}

std::string estimate_text(const RunView& view) {
  constexpr double kDay = 86400;
  if (!view.estimate.seconds) return view.report.state.is_live ? "no estimate: " + view.estimate.reason : "";
  const double left = *view.estimate.seconds;
  constexpr std::size_t kDate = 10, kMinutes = 16;  // characters of "2026-03-01 12:00:00"
  const auto end = time_text(view.now + left);
  return fmt::format("{} left, done at {}", duration_text(left),
                     left < kDay ? end.substr(kDate + 1, kMinutes - kDate - 1) : end.substr(0, kMinutes));
}

}  // namespace distdl::app
