// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <distdl/checkpoint/saver.hpp>
#include <distdl/data/source.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/saves/checkpoint_schedule.hpp>
#include <distdl/train/server/range_keeper.hpp>
#include <distdl/train/setting.hpp>
#include <distdl/train/state/kept_range.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::train {

/// Leads the saves of a run: decides when and where to save, and reports the results to the user.
class Checkpointing {
 public:
  /// Not collective. The references must outlive this object.
  Checkpointing(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                groups::CommunicatorGroup& group, records::Observer& observer, kernels::Backend& backend,
                data::Sources& sources, const OwnedModel& held, const parallel::Mesh& mesh, TrainingState& state,
                EndOfJob& end_of_job);

  /// Collective. Takes the folder and fills the state from the newest snapshot or valid checkpoint. Returns the source.
  /// Returns nothing if there is none; the state may then have any value.
  std::optional<std::string> restore(const StartValues& start_values);
  /// Collective. Throws StorageError if the file system has no space for the run.
  void check_room();
  /// The number of this start of the run, from 1; known after restore().
  std::uint64_t start_number() const { return store_.owner().start; }
  bool job_has_changed() const { return checkpointer_.job_has_changed(); }
  /// The state of this step passed an audit: the newest checkpoint up to it is kept, whatever comes after it.
  void audited(Step step) { store_.keep_newest_until(step); }
  /// Collective. Ends the saves, drops the snapshots and moves the checkpoints after the last audited step to
  /// quarantine. Returns their steps on rank 0.
  std::vector<Step> distrust(const std::string& reason);
  /// Keeps a range so that it outlives this process. Called in the thread of a server.
  void keep(const KeptRange& kept);
  /// Begins the first interval at the current step.
  void schedule_from_here();
  /// Collective. Starts the Saver, which saves while training continues. A resumed state is at once copied to other
  /// nodes' memory, because its earlier copies may be lost.
  void start(bool resumed);

  /// Whether this rank requests a checkpoint of that step.
  bool is_due(Step step) const;
  /// Collective. Whether the newest checkpoint in the run folder is of this step.
  bool is_saved();
  /// Whether this rank knows that a checkpoint or a snapshot follows that step.
  bool saves_after(Step step) const;
  /// Whether a save is under way.
  bool is_busy() const { return saver_ && saver_->is_busy(); }
  /// Whether a save is under way, or would begin after the step `next`.
  bool is_busy(Step next) const;
  void step_took(double seconds) { schedule_.step_took(seconds); }
  /// Returns when the state may be changed.
  void await_copy() { saver_->await_copy(); }
  /// Collective, see checkpoint::Saver.
  void fence() { saver_->fence(); }
  /// Reports the results of finished saves, and adapts the interval to their times.
  void tell_outcomes();
  /// Collective. Saves if a save is due. A failure is not fatal: the next interval tries again. A checkpoint that is
  /// due during a snapshot does not wait for the next interval: it is tried again after each step, and no other
  /// snapshot begins until then.
  void save_if_due(bool worth_a_save);
  /// Collective, after the best evaluation so far: saves the state of this step unless a checkpoint has it, and tags
  /// that checkpoint "best" when it is committed. A save that is under way is awaited before. A failure is not fatal:
  /// the checkpoint that has the tag keeps it.
  void save_best();
  /// Collective, after a restore: gives the tag to the best checkpoint, if the start before could not do so.
  void restore_best();
  /// Collective. Saves at the end or before a stop, and returns after the commit.
  void save_last();
  /// Collective. Ends the saves of a run that fails. Earlier saves are still completed, because their states are valid.
  void end();
  /// Collective. A text for the user: the step from which the next start continues, and how to start from an earlier
  /// one.
  std::string way_back();

 private:
  /// The node and the failure domain of this rank.
  checkpoint::Place place() const { return {communicator_.host(communicator_.rank()), setting_.failure_domain}; }
  /// Collective. Throws if any rank sees that a data set has changed on the disk, so that nothing is committed
  /// afterwards.
  void require_unchanged_data();
  /// Returns false if the previous save is not finished.
  bool begin_save(const checkpoint::Destination& destination);
  void save_on_the_way(const checkpoint::Destination& destination);
  void tell(const checkpoint::SaveOutcome& outcome);
  void tag_best();
  void forget_ranges();

  const Recipe& recipe_;
  const Setting& setting_;
  comm::Communicator& communicator_;
  groups::CommunicatorGroup& group_;
  records::Observer& observer_;
  data::Sources& sources_;
  const OwnedModel& held_;
  TrainingState& state_;
  EndOfJob& end_of_job_;
  checkpoint::Store store_;
  StateCheckpointer checkpointer_;
  CheckpointSchedule schedule_;
  std::optional<RangeKeeper> ranges_;       ///< while there are steps to do, with a parameter server that has partners
  std::optional<checkpoint::Saver> saver_;  ///< exists while there are steps to do
  checkpoint::Destination under_way_;       ///< destination of the last save that began
  bool owed_ = false;                       ///< a checkpoint was due while a snapshot was under way
};

}  // namespace distdl::train
