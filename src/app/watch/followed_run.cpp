// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/app/watch/followed_run.hpp>
#include <distdl/app/watch/timeline.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/median.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::app {
namespace {
using observe::Bucket;
using observe::Phase;
using records::Row;
using records::StepDone;

constexpr std::size_t kRecentRows = 65;
constexpr std::size_t kMostEntries = 1000;  // of the timeline
constexpr std::size_t kMostSaves = 100;

/// Moves are counted, so that later rows do not replace those that tell of one.
bool is_replaced_by_the_next(const Row& row) {
  const auto* const shares = row.as<records::SharesKnown>();
  const auto* const ranges = row.as<records::RangesKnown>();
  const bool has_moved = (shares && shares->moved) || (ranges && ranges->moved);
  return !has_moved && kind_of(row.record).traits.is_replaced;
}

/// A row of one kind replaces another of it, but not one of other levels.
bool are_alike(const Row& one, const Row& other) {
  if (one.record.index() != other.record.index()) return false;
  if (const auto* const checkpoint = one.as<records::CheckpointSaved>())
    return checkpoint->levels == other.as<records::CheckpointSaved>()->levels;
  if (const auto* const snapshot = one.as<records::SnapshotKept>())
    return snapshot->levels == other.as<records::SnapshotKept>()->levels;
  return true;
}

const StepDone& step_in(const Row& row) {
  return *row.as<StepDone>();
}

template <class Element>
void push_bounded(std::vector<Element>& rows, Element row, std::size_t most) {
  rows.push_back(std::move(row));
  if (rows.size() > most) rows.erase(rows.begin());
}

/// The mean over steps of what `waited` gives for each, in seconds.
template <class Waited>
double mean_of(const std::deque<Row>& rows, const Waited& waited) {
  double sum = 0;
  for (const auto& row : rows) sum += waited(step_in(row));
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

/// Nothing if the run goes on, or has left no result.
std::optional<observe::Result> find_result(const std::filesystem::path& folder) try {
  return observe::read_result(folder);
} catch (const StorageError&) {
  return std::nullopt;
}

double waited_for_others(const StepDone& done) {
  return done.sum_waited_seconds.value_or(0) + done.pipeline_waited_seconds.value_or(0);
}
}  // namespace

void RunStory::keep(const Row& row) {
  for (std::size_t i = journal_.size(); i-- > 1 && is_replaced_by_the_next(journal_[i]);)
    if (are_alike(journal_[i], row)) {
      journal_.erase(journal_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  journal_.push_back(row);
}

void RunStory::add(const Row& row) {
  const bool is_of_journal = !row.is<StepDone, records::Evaluated>();
  if (is_of_journal) keep(row);
  ledger_.add(row);
  curves_.add(row.record);
  std::visit([&](const auto& record) { take(record, row); }, row.record);
  if (auto entry = timeline_entry_of(row)) push_bounded(timeline_, std::move(*entry), kMostEntries);
}

void RunStory::take(const records::Started& started, const Row& row) {
  if (!seconds_before_) seconds_before_ = ledger_.finish(std::nullopt).wall();
  start_ = row;
  recent_.clear();
  last_step_ = started.resumed_from.value_or(Step(0)).value;
}

void RunStory::take(const records::CheckpointSaved& checkpoint, const Row& row) {
  if (!checkpoint.step) return;
  add_save({.is_snapshot = false,
            .step = checkpoint.step->value,
            .time = row.time,
            .seconds = checkpoint.seconds,
            .stall_seconds = checkpoint.stall_seconds.value_or(0),
            .bytes = static_cast<double>(checkpoint.bytes),
            .levels = checkpoint.levels},
           checkpoints_);
}

void RunStory::take(const records::SnapshotKept& snapshot, const Row& row) {
  if (!snapshot.step) return;
  curves_.add("snapshot_seconds", snapshot.step->value, snapshot.seconds);
  curves_.add("snapshot_stall_seconds", snapshot.step->value, snapshot.stall_seconds);
  add_save({.is_snapshot = true,
            .step = snapshot.step->value,
            .time = row.time,
            .seconds = snapshot.seconds,
            .stall_seconds = snapshot.stall_seconds,
            .levels = snapshot.levels},
           snapshots_);
}

void RunStory::add_save(SaveView save, SaveTotals& totals) {
  ++totals.count;
  totals.bytes += save.bytes;
  totals.seconds += save.seconds;
  totals.stall_seconds += save.stall_seconds;
  push_bounded(saves_, std::move(save), kMostSaves);
}

void RunStory::take(const StepDone& done, const Row& row) {
  const std::int64_t step = done.step.value;
  // The row of a start may be lost, or come later.
  const bool is_of_another = !recent_.empty() && recent_.back().start.value_or(0) != row.start.value_or(0);
  if (step <= last_step_ || is_of_another) recent_.clear();
  const auto steps = static_cast<double>(std::max<std::int64_t>(0, step - last_step_));
  if (start_) {
    steps_ += steps;
    rank_steps_ += steps * static_cast<double>(start_->as<records::Started>()->world_size);
  }
  last_step_ = step;
  // A rank that has nobody to wait for has no such metric.
  if (!done.sum_waited_seconds) curves_.add("distdl_sum_waited_seconds", step, 0);
  if (!done.pipeline_waited_seconds) curves_.add("distdl_pipeline_waited_seconds", step, 0);
  recent_.push_back(row);
  if (recent_.size() > kRecentRows) recent_.pop_front();
}

void RunStory::add_older(const std::vector<Row>& evaluations) {
  curves_.insert(evaluations);
  if (!evaluation_ || step_of(evaluation_->record) < step_of(evaluations.back().record))
    evaluation_ = evaluations.back();
}

observe::RunSummary RunStory::summary() const {
  std::vector<Row> metrics{recent_.begin(), recent_.end()};
  if (evaluation_) metrics.push_back(*evaluation_);
  return observe::summarize(journal_, metrics);
}

double RunStory::median_step_seconds() const {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < recent_.size(); ++i) {
    const auto steps = static_cast<double>(step_in(recent_[i]).step.value - step_in(recent_[i - 1]).step.value);
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
  const auto first = step_in(recent_.front()).step.value, last = step_in(recent_.back()).step.value;
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, last - first));
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
      rank.data = take(mean_of(recent_, [](const StepDone& done) { return done.waited_seconds.value_or(0); }));
      rank.sum = take(mean_of(recent_, waited_for_others));
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
    const auto first = start_->as<records::Started>()->resumed_from.value_or(Step(0));
    pace.start_steps = step_in(recent_.back()).step.value - first.value;
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
  view.timeline = timeline_;
  view.saves = saves_;
  view.checkpoints = checkpoints_;
  view.snapshots = snapshots_;
  view.failed_saves = failed_saves_;
  view.skipped_saves = skipped_saves_;
  view.step_seconds = median_step_seconds();
  view.nodes = paces_.nodes(view.step_seconds);
  std::vector<double> speeds;
  for (const auto& row : recent_)
    if (const auto& speed = step_in(row).samples_per_s) speeds.push_back(*speed);
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
  result_ = find_result(folder_);
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
  if (result_ && !report.state.is_live) {  // the figures of the whole run, which all commands show
    view.samples_per_s = result_->samples_per_s;
    report.summary.mfu = result_->mfu;
    report.summary.hfu = result_->hfu;
  }
  return view;
}

std::string places_text(const SaveView& save) {
  auto places = save.levels;
  if (!save.is_snapshot) places.insert(places.begin(), "file system");
  return places.empty() ? "nodes" : fmt::format("{}", fmt::join(places, ", "));
}

}  // namespace distdl::app
