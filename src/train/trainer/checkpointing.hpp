// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/checkpoint/saver.hpp>
#include <distdl/data/source.hpp>
#include <distdl/train/checkpoint_schedule.hpp>
#include <distdl/train/end_of_job.hpp>
#include <distdl/train/events.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/state.hpp>

namespace distdl::train {

/// When a run saves its state, where to, and what it tells the user about it.
class Checkpointing {
 public:
  /// Not collective. The references must outlive this object.
  Checkpointing(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                CommunicatorGroup& group, Observer& observer, kernels::Backend& backend, data::Sources& sources,
                const model::ModelTensors& tensors, TrainingState& state, EndOfJob& end_of_job);

  /// Collective. Takes the folder and fills the state from the newest snapshot or valid checkpoint. Returns where it
  /// came from; nothing if there is none, and the state may then have any value.
  std::optional<std::string> restore(const StartValues& start_values);
  /// Collective. Throws StorageError if the file system has no room for the run.
  void check_room() { store_.check_room(group_, state_.bytes()); }
  /// The first interval begins at this step.
  void schedule_from_here();
  /// Collective: from now on saves go on beside training. A state that was resumed gets its copies in other nodes'
  /// memory at once: those it had may be lost.
  void start(bool resumed);

  /// Whether this rank wants a checkpoint of that step.
  bool is_due(Step step) const;
  /// Whether a save is under way.
  bool is_busy() const { return saver_ && saver_->is_busy(); }
  /// The same, or would begin after the step `next`.
  bool is_busy(Step next) const;
  void step_took(double seconds) { schedule_.step_took(seconds); }
  /// Returns when the state may be changed.
  void fence() { saver_->fence(); }
  /// Tells how saves ended meanwhile, and learns from them how often to save.
  void tell_outcomes();
  /// Collective. Saves where it is due. A failure costs nothing yet: the next interval tries again. A checkpoint does
  /// not wait that long for a mere snapshot: it is tried again after each step, and meanwhile no other snapshot begins.
  void save_if_due(bool worth_a_save);
  /// Collective. At the end, or before a stop: returns when it is committed.
  void save_last();
  /// Collective. Of a run that fails: the saves before are of better times.
  void end();
  /// Collective. Where the next start goes on, and how to make it begin before that.
  std::string way_back();

 private:
  /// Where this rank runs.
  checkpoint::Place place() const { return {communicator_.host(communicator_.rank()), setting_.failure_domain}; }
  /// Collective. Nothing is committed after a data set was changed on the disk of any rank.
  void require_unchanged_data();
  /// False if the save before is still under way.
  bool begin_save(const checkpoint::Destination& destination);
  void save_on_the_way(const checkpoint::Destination& destination);
  void tell(const checkpoint::SaveOutcome& outcome);

  const Recipe& recipe_;
  const Setting& setting_;
  comm::Communicator& communicator_;
  CommunicatorGroup& group_;
  Observer& observer_;
  data::Sources& sources_;
  TrainingState& state_;
  EndOfJob& end_of_job_;
  checkpoint::Store store_;
  StateCheckpointer checkpointer_;
  CheckpointSchedule schedule_;
  std::optional<checkpoint::Saver> saver_;  ///< while there are steps to do
  checkpoint::Destination under_way_;       ///< of the save that began last
  bool owed_ = false;                       ///< a checkpoint was due while a mere snapshot was under way
};

}  // namespace distdl::train
