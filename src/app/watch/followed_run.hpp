// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/app/runs/job_states.hpp>
#include <distdl/app/watch/run_view.hpp>
#include <distdl/observe/event_follower.hpp>
#include <distdl/observe/run/ledger.hpp>
#include <distdl/observe/run/result.hpp>

namespace distdl::app {

/// State of a run, according to the rows of its files so far.
class RunStory {
 public:
  /// Adds a row. Rows come in the order of time, as far as it is known.
  void add(const records::Row& row);
  /// Evaluations from between the first rows; at least one.
  void add_older(const std::vector<records::Row>& evaluations);

  observe::RunSummary summary() const;
  /// Writes the contents of the rows into the view. Its report and time must be there.
  void fill(RunView& view) const;

 private:
  void keep(const records::Row& row);
  /// Takes what a record of a kind has besides metrics; the ledger and the summary take rows for themselves.
  template <class Kind>
  void take(const Kind& /*record*/, const records::Row& /*row*/) {}
  void take(const records::StepDone& done, const records::Row& row);
  void take(const records::SharesKnown& shares, const records::Row&) { paces_.add(shares); }
  void take(const records::Evaluated&, const records::Row& row) { evaluation_ = row; }
  void take(const records::Started& started, const records::Row& row);
  void take(const records::CheckpointSaved& checkpoint, const records::Row& row);
  void take(const records::SnapshotKept& snapshot, const records::Row& row);
  void take(const records::SaveFailed&, const records::Row&) { ++failed_saves_; }
  void take(const records::SaveSkipped&, const records::Row&) { ++skipped_saves_; }
  void add_save(SaveView save, SaveTotals& totals);
  double median_step_seconds() const;
  std::vector<RankPhases> phases(const observe::RunSummary& summary, double step_seconds) const;
  Pace pace(const RunView& view) const;

  observe::LedgerBuilder ledger_;
  std::vector<records::Row> journal_;  ///< without rows that later ones replace
  std::vector<TimelineEntry> timeline_;
  std::vector<SaveView> saves_;
  int failed_saves_ = 0, skipped_saves_ = 0;
  SaveTotals checkpoints_, snapshots_;
  NodePaces paces_;
  RunCurves curves_;
  std::deque<records::Row> recent_;         ///< steps of the present start
  std::optional<records::Row> start_;       ///< the present one
  std::optional<records::Row> evaluation_;  ///< the newest one
  std::int64_t last_step_ = 0;
  double steps_ = 0, rank_steps_ = 0;     ///< number of steps of all starts; sum of the ranks over these steps
  std::optional<double> seconds_before_;  ///< wall time before the first start
};

/// A run that is followed by its folder, also one of another user.
class FollowedRun {
 public:
  /// `whole`: bytes of the end of metrics.jsonl that are read as a whole.
  explicit FollowedRun(std::filesystem::path folder, std::size_t whole = 4 << 20)
      : folder_(std::move(folder)), follower_(folder_, whole) {}
  /// Reads what is new.
  void read(double now);
  /// True if there are older evaluations that the next calls of read() will find.
  bool is_searching() const { return follower_.is_searching(); }
  /// Jobs that Slurm should be asked about; none if it has ended.
  std::vector<std::string> jobs() const;
  /// Takes the states of these jobs, as Slurm reports them.
  void tell(const std::vector<JobState>& jobs) { jobs_ = jobs; }
  /// According to its journal.
  observe::Phase phase() const { return story_.summary().phase; }
  RunView view(double now) const;

 private:
  std::filesystem::path folder_;
  observe::EventFollower follower_;
  RunStory story_;
  std::vector<JobState> jobs_;
  RunReport report_;                       ///< what does not change with each step
  std::optional<observe::Result> result_;  ///< if it has ended
  double next_report_ = 0;                 ///< seconds since 1970
};

}  // namespace distdl::app
