// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/records/record.hpp>

// Where the time of a run went. Compare Google's ML Productivity Goodput: the share of time in which a run makes
// progress that lasts.
namespace distdl::observe {

enum class Bucket { queued, start, training, save_stall, lost_work, detect, recover, restart_wait, other };

struct BucketEntry {
  Bucket bucket;
  std::string_view name, meaning;
};

/// All buckets, in the order of the enum.
inline constexpr std::array<BucketEntry, 9> kBuckets{{
    {Bucket::queued, "queued", "the job waits in Slurm's queue, the first time or again"},
    {Bucket::start, "start", "from the start of the job, or after a stop on purpose, until the ranks train"},
    {Bucket::training, "training", "steps whose results last, with evaluations"},
    {Bucket::save_stall, "save stall", "training waits for a save"},
    {Bucket::lost_work, "lost work", "steps that were done again later, and the step that a failure broke off"},
    {Bucket::detect, "detect", "from a failure until somebody knows of it"},
    {Bucket::recover, "recover",
     "after a failure that is known: ranks of another generation, or of another launch once it begins, connect, "
     "restore "
     "and reach their first step"},
    {Bucket::restart_wait, "restart wait", "from the end of a launch that failed until the next one begins"},
    {Bucket::other, "other", "ranks end after a stop on purpose; no job was submitted; nothing is known"},
}};

/// Cost of an interruption: the run was broken off and went on with another start.
struct Interruption {
  double time;     ///< time of the start that went on, seconds since 1970, as in its row `started`
  double seconds;  ///< time since the start before, without training that lasts and stalls of saves
};

/// Each second from `begin` to `end` is in one bucket.
struct Ledger {
  double begin = 0, end = 0;  ///< seconds since 1970
  std::array<double, kBuckets.size()> seconds{};
  std::vector<Interruption> interruptions = {};  ///< in the order of time

  double& operator[](Bucket bucket) { return seconds[static_cast<std::size_t>(bucket)]; }
  double operator[](Bucket bucket) const { return seconds[static_cast<std::size_t>(bucket)]; }
  double wall() const { return end - begin; }
  /// Neither training nor stalls of saves.
  double lost() const { return wall() - (*this)[Bucket::training] - (*this)[Bucket::save_stall]; }
  /// Training as a share of the wall time, and of the wall time without the queue; 0 .. 1.
  double goodput() const;
  double goodput_in_jobs() const;
};

/// Makes a ledger of the rows of journal.jsonl and metrics.jsonl, merged by time. A row without a time is skipped; one
/// that is older than the row before counts as just as old: clocks of nodes differ.
class LedgerBuilder {
 public:
  void add(const records::Row& row);
  /// `now`: a run that has not ended goes on until then, seconds since 1970. Nothing: its last row is its end.
  Ledger finish(std::optional<double> now) const;

 private:
  enum class State { nothing, idle, queued, starting, training, down, leaving };
  /// Seconds of training that advanced the run from one step to another. They stay `training` until a start resumes
  /// below `to`.
  struct Span {
    double from, to, seconds;
  };

  // A function for each kind that changes what the run is doing. Before a record of any other kind time just passes.
  void take(const records::StepDone& done) { trained(done.step); }
  void take(const records::Evaluated& evaluated) { trained(evaluated.step); }
  void take(const records::StillTraining& training);
  void take(const records::Submitted& submitted);
  void take(const records::JobStarted& job);
  void take(const records::LaunchBegan& launch);
  void take(const records::Started& started);
  void take(const records::CheckpointSaved& checkpoint) { saved(checkpoint.stall_seconds.value_or(0)); }
  void take(const records::SnapshotKept& snapshot) { saved(snapshot.stall_seconds); }
  void take(const records::Stopped&) { training_ended(); }
  void take(const records::Finished&) { training_ended(); }
  void take(const records::GenerationFailed& failure);
  void take(const records::GenerationBegan& generation);
  void take(const records::LaunchEnded& end);
  void take(const records::Requeued&) { job_left(true); }
  void take(const records::JobEnded&) { job_left(false); }

  void trained(Step step);
  void saved(double stall_seconds);
  void training_ended();
  void job_left(bool is_requeued);
  void failed(Bucket rest = Bucket::detect);
  /// Puts the time since the last row into the bucket of the present state.
  void pass();
  void pass_as(Bucket bucket);
  void pass_training(double step);
  void move(Span& span, double seconds, Bucket to);
  Bucket bucket() const;

  Ledger ledger_;
  State state_ = State::nothing;
  double row_time_ = 0;            ///< the time of the row that is being added
  double now_ = 0;                 ///< time of the row that is being added, or of the row before if that is later
  bool after_failure_ = false;     ///< what is being started recovers
  bool is_breaking_off_ = false;   ///< ranks that are about to be ended may still do a step
  double step_ = 0;                ///< done last
  double step_seconds_ = 0;        ///< what a step of this start takes
  double lost_before_ = 0;         ///< Ledger::lost() when this start began
  std::vector<Span> spans_;        ///< ascending steps
  std::size_t launch_begin_ = 0;   ///< index in spans_ of the first span of the launch that trains
  std::set<std::string> waiting_;  ///< jobs that were submitted and have not started
};

/// The ledger of these rows, each list in the order of its file.
Ledger ledger_of(const std::vector<records::Row>& journal, const std::vector<records::Row>& metrics,
                 std::optional<double> now);
/// The ledger of the run in a folder.
Ledger read_ledger(const std::filesystem::path& run_folder, std::optional<double> now);

}  // namespace distdl::observe
