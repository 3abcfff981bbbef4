// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/files/file_system.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/slurm/job_limits.hpp>
#include <distdl/train/bit_flip.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/trace.hpp>

namespace distdl::train {

struct AnswerSeconds;  // balance/range_rule.hpp
struct RankTimes;      // balance/microbatch_rule.hpp

/// The place and the time limits of a run.
struct Setting {
  std::filesystem::path checkpoints;     ///< the folder of the run's checkpoints, seen by all ranks
  checkpoint::Owner owner;               ///< the same on all ranks
  slurm::JobLimits limits = {};          ///< when and how the job ends; rank 0's count
  checkpoint::FailureRecord failures{};  ///< of the run so far; rank 0's counts
  /// Asked between steps on every rank; a reason makes all ranks save at the same step and stop.
  std::function<std::optional<std::string>()> stop_requested = {};
  /// Called between steps on every rank, with what tells whether a save is under way there: a caller that must have
  /// each save waits here until the last one is done.
  std::function<void(const std::function<bool()>& is_saving)> between_steps = {};
  /// Asked between steps on rank 0: whether to make a checkpoint after the next step, besides those that are due.
  std::function<bool()> save_requested = {};
  /// Asked during evaluations on every rank; true gives the evaluation up, saves and stops.
  std::function<bool()> stop_is_pending = {};
  /// Asked between steps, now and then, on rank 0: another end of the job than that of `limits`.
  std::function<std::optional<std::chrono::system_clock::time_point>()> end_of_job = {};
  /// Asked between steps: whether this process was stopped and continued meanwhile. What was measured then counts for
  /// nothing, and the end of the job may have moved.
  std::function<bool()> was_suspended = {};
  /// Asked on rank 0 after a restore: the loss of the step after this one, as an earlier start recorded it.
  std::function<std::optional<double>(Step)> recorded_loss = {};
  /// Asked on each rank: the peak that was measured of a rank with this backend (Backend::description()) on its kind of
  /// node, FLOPs per second; 0: none was.
  std::function<double(const std::string& backend)> peak_flops = {};
  std::int64_t devices_per_rank = 1;     ///< see Towers; the same on all ranks
  std::optional<BitFlip> bit_flip = {};  ///< an error on purpose, in a start that resumes nothing
  /// By which the layers are divided into the stages of pipelines, see parallel::stages_of(); the same on all ranks.
  std::vector<double> stage_costs = {};
  records::MeasuredTimes measured = {};  ///< by an earlier start of the run; rank 0's count
  std::string node = {};                 ///< what the scheduler calls this rank's node; empty: its host name
  /// The node's, if nodes of one domain may be lost together: for checkpoint.failure_domain = "switch".
  std::string failure_domain = {};
  checkpoint::SnapshotUse snapshots = checkpoint::SnapshotUse::newest;  ///< where to resume from
  std::optional<TraceSetting> trace = {};                               ///< the same on all ranks
  std::optional<Step> resume_below = {};  ///< resume from an earlier step than this, unless there is no such checkpoint
  /// For tests: what this rank has measured, instead of clocks.
  std::function<RankTimes(Step, const parallel::MicrobatchPlan&)> rank_times = {};
  /// The same of the servers, whose ranges are given.
  std::function<AnswerSeconds(Step, const std::vector<optim::Elements>&)> answer_seconds = {};
  /// For tests: the file system of the checkpoints and the local disks. It must outlive the run. Null: that of the
  /// operating system.
  FileSystem* files = nullptr;
};

enum class Outcome {
  finished,  ///< all steps are done, or it ended early, and the final checkpoint is written
  stopped,   ///< saved; the next start continues
};

/// Collective over the communicator's ranks. Resumes from the newest snapshot or valid checkpoint, or starts a new run.
/// Trains to the end, or until any rank is asked to stop. Failed saves are logged and reported to the observer, and the
/// run continues; only the last save must succeed. The result depends only on the recipe, not on the number of ranks or
/// interruptions. Throws Error on all ranks, with the code of the cause: bad input, a missing data set or checkpoint,
/// another run that took the checkpoint folder; comm::PeerLost. If an audit finds wrong bits, the ranks that are wrong
/// throw an Error with ExitCode::corruption, and the others a CommError; all throw the first, if nothing tells which
/// node is wrong.
Outcome run(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
            records::Observer& observer);

}  // namespace distdl::train
