// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/ledger.hpp>

namespace distdl::observe {
namespace {
double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// Feeds two lists in the order of time. Clocks of nodes differ, so neither needs to ascend.
class Merge {
 public:
  Merge(LedgerBuilder& builder, const std::vector<records::Row>& journal) : builder_(builder), journal_(journal) {}
  void metric(const records::Row& row) {
    for (; next_ < journal_.size() && journal_[next_].time < row.time; ++next_) builder_.add(journal_[next_]);
    builder_.add(row);
  }
  void rest() {
    for (; next_ < journal_.size(); ++next_) builder_.add(journal_[next_]);
  }

 private:
  LedgerBuilder& builder_;
  const std::vector<records::Row>& journal_;
  std::size_t next_ = 0;
};
}  // namespace

double Ledger::goodput() const {
  return share((*this)[Bucket::training], wall());
}

double Ledger::goodput_in_jobs() const {
  return share((*this)[Bucket::training], wall() - (*this)[Bucket::queued]);
}

Bucket LedgerBuilder::bucket() const {
  switch (state_) {
    case State::queued:
      return Bucket::queued;
    case State::starting:
      return after_failure_ ? Bucket::recover : Bucket::start;
    case State::training:
      return Bucket::training;
    case State::down:
      return Bucket::restart_wait;
    default:
      return Bucket::other;
  }
}

void LedgerBuilder::pass_as(Bucket bucket) {
  ledger_[bucket] += now_ - ledger_.end;
  ledger_.end = now_;
}

void LedgerBuilder::pass_training(double step) {
  const double seconds = now_ - ledger_.end;
  pass_as(Bucket::training);
  spans_.push_back({step_, std::max(step_, step), seconds});
  step_ = spans_.back().to;
}

void LedgerBuilder::pass() {
  if (state_ == State::training)
    pass_training(step_);
  else
    pass_as(bucket());
}

void LedgerBuilder::move(Span& span, double seconds, Bucket to) {
  span.seconds -= seconds;
  ledger_[Bucket::training] -= seconds;
  ledger_[to] += seconds;
}

void LedgerBuilder::take(const records::Submitted& submitted) {
  pass();
  waiting_.insert(submitted.job);
  if (state_ == State::nothing || state_ == State::idle) state_ = State::queued;
}

/// A job that ended without a word was killed with its node: the last step broke off, and the rest is a wait for Slurm.
void LedgerBuilder::take(const records::JobStarted& job) {
  const double now = now_;
  const bool submit_is_known = job.submit_time > ledger_.end && job.submit_time < now;
  if (state_ == State::nothing && job.submit_time > 0 && job.submit_time < now) ledger_.begin = job.submit_time;
  if (state_ == State::nothing) ledger_.end = ledger_.begin;
  if (state_ == State::training || state_ == State::starting) {
    if (submit_is_known) now_ = job.submit_time;
    failed();
    now_ = now;
    if (submit_is_known) state_ = State::queued;
  } else if (state_ == State::idle && submit_is_known) {
    now_ = job.submit_time;
    pass();
    now_ = now;
    state_ = State::queued;
  } else if (state_ == State::nothing || state_ == State::leaving) {
    state_ = State::queued;
  }
  pass();
  waiting_.erase(job.job);
  state_ = State::starting;
  is_breaking_off_ = false;
}

void LedgerBuilder::take(const records::LaunchEnded& end) {
  if (!is_planned(end)) return failed();
  pass();
  state_ = State::leaving;
  after_failure_ = false;
}

/// Put back into the queue, or ended.
void LedgerBuilder::job_left(bool is_requeued) {
  const bool waits = is_requeued || state_ == State::queued || !waiting_.empty();
  state_ == State::training ? failed() : pass();
  state_ = waits ? State::queued : State::idle;
}

/// Breaks off whatever the ranks did. `rest`: what the time was since the step that broke off.
void LedgerBuilder::failed(Bucket rest) {
  if (state_ == State::training) {
    const double gap = now_ - ledger_.end, end = now_;
    now_ = ledger_.end + std::min(gap, step_seconds_);
    pass_as(Bucket::lost_work);
    now_ = end;
    pass_as(rest);
  } else {
    pass();
  }
  after_failure_ = true;
  state_ = State::down;
}

void LedgerBuilder::take(const records::Started& started) {
  const auto step = static_cast<double>(started.resumed_from.value_or(Step(0)).value);
  is_breaking_off_ = false;
  state_ == State::training ? failed(Bucket::other) : pass();  // journals of 0.1 tell of no end of a launch
  while (!spans_.empty() && spans_.back().to > step) {
    Span& span = spans_.back();
    const double lost = span.from >= step ? 1 : (span.to - step) / (span.to - span.from);
    move(span, span.seconds * lost, Bucket::lost_work);
    span.to = std::max(span.from, step);
    if (span.from >= step) spans_.pop_back();
  }
  const double before = std::exchange(lost_before_, ledger_.lost());
  if (started.interrupted) ledger_.interruptions.push_back({row_time_, lost_before_ - before});
  step_ = step;
  launch_begin_ = spans_.size();
  state_ = State::training;
  after_failure_ = false;
}

void LedgerBuilder::take(const records::StillTraining& training) {
  if (training.step) trained(*training.step);
}

void LedgerBuilder::trained(Step step) {
  const auto done = static_cast<double>(step.value);
  if (is_breaking_off_ && state_ == State::starting) return pass_as(Bucket::lost_work);
  if (state_ != State::training) {  // the row of its start was lost
    pass();
    state_ = State::training;
    launch_begin_ = spans_.size();
    step_ = done;
    return;
  }
  const double steps = done - step_, seconds = now_ - ledger_.end;
  pass_training(done);
  if (steps > 0) step_seconds_ = seconds / steps;
}

/// The stall lies somewhere in the steps since the save began; the newest ones have it.
void LedgerBuilder::saved(double stall_seconds) {
  pass();
  for (std::size_t i = spans_.size(); i > launch_begin_ && stall_seconds > 0; --i) {
    const double part = std::min(stall_seconds, spans_[i - 1].seconds);
    move(spans_[i - 1], part, Bucket::save_stall);
    stall_seconds -= part;
  }
}

void LedgerBuilder::take(const records::LaunchBegan&) {
  is_breaking_off_ = false;
  state_ == State::training ? failed() : pass();
  state_ = State::starting;
}

void LedgerBuilder::training_ended() {
  pass();
  state_ = State::leaving;
}

/// The ranks that are left recover by themselves.
void LedgerBuilder::take(const records::GenerationFailed&) {
  failed();
  state_ = State::starting;
  is_breaking_off_ = true;
}

void LedgerBuilder::take(const records::GenerationBegan&) {
  state_ == State::training ? failed() : pass();
  state_ = State::starting;
  is_breaking_off_ = false;
}

void LedgerBuilder::add(const records::Row& row) {
  if (row.time <= 0 || row.is<records::RankFailed, records::RunFailed>()) return;  // the end follows
  row_time_ = row.time;
  now_ = state_ == State::nothing ? row.time : std::max(row.time, ledger_.end);
  if (state_ == State::nothing) ledger_.begin = ledger_.end = row.time;
  if (row.is<records::Other>() && name_of(row.record).empty()) return;  // of metrics.jsonl, but without a step
  std::visit(
      [this](const auto& record) {
        if constexpr (requires { this->take(record); })
          take(record);
        else if (state_ != State::nothing)
          pass();
      },
      row.record);
}

Ledger LedgerBuilder::finish(std::optional<double> now) const {
  LedgerBuilder last = *this;
  if (now && state_ != State::nothing && state_ != State::idle) {
    last.now_ = std::max(*now, ledger_.end);
    last.pass();
  }
  return last.ledger_;
}

Ledger ledger_of(const std::vector<records::Row>& journal, const std::vector<records::Row>& metrics,
                 std::optional<double> now) {
  LedgerBuilder builder;
  Merge merge(builder, journal);
  for (const records::Row& row : metrics) merge.metric(row);
  merge.rest();
  return builder.finish(now);
}

Ledger read_ledger(const std::filesystem::path& run_folder, std::optional<double> now) {
  const auto journal = read_journal(run_folder);
  LedgerBuilder builder;
  Merge merge(builder, journal);
  for_each_record(run_folder / "metrics.jsonl", [&](const records::Row& row) {
    if (row.time > 0) merge.metric(row);
  });
  merge.rest();
  return builder.finish(now);
}

}  // namespace distdl::observe
