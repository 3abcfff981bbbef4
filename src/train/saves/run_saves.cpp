// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/groups/writing_group.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/train/saves/run_saves.hpp>
#include <distdl/train/saves/save_destinations.hpp>
#include <distdl/train/state/group_state.hpp>
#include <distdl/train/state/identity.hpp>

namespace distdl::train {

Checkpointing::Checkpointing(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                             groups::CommunicatorGroup& group, records::Observer& observer, kernels::Backend& backend,
                             data::Sources& sources, const OwnedModel& held, const parallel::Mesh& mesh,
                             TrainingState& state, EndOfJob& end_of_job)
    : recipe_(recipe),
      setting_(setting),
      communicator_(communicator),
      group_(group),
      observer_(observer),
      sources_(sources),
      held_(held),
      state_(state),
      end_of_job_(end_of_job),
      store_(setting.checkpoints, recipe.checkpoint, setting.hooks.files ? *setting.hooks.files : real_file_system()),
      checkpointer_(backend, communicator, group, store_, held.whole, identity_of(recipe, *sources.training),
                    HeldPart{held.tensors, mesh.data(), held.tells_whole_tensors, held.tells_parts,
                             mesh.has_groups() ? &mesh.summing() : nullptr}),
      schedule_(recipe.checkpoint, setting.failures) {}

std::optional<std::string> Checkpointing::restore(const StartValues& start_values) {
  store_.take(group_, setting_.owner, setting_.snapshots);
  std::optional<checkpoint::Levels> levels;
  if (auto setup = levels_setup(store_, place(), parallel::keeps_ranges(recipe_.parallel)))
    levels.emplace(group_, store_.files(), *std::move(setup));
  return checkpointer_.restore(state_, levels ? &*levels : nullptr,
                               recipe_.checkpoint.partial ? &start_values : nullptr, setting_.resume_below);
}

void Checkpointing::check_room() {
  const std::size_t residuals = state_.compression.residual.bytes() * static_cast<std::size_t>(communicator_.size());
  const std::size_t lacks = state_.compression.lacks.bytes() * static_cast<std::size_t>(communicator_.size());
  store_.check_room(group_, held_.whole.layout.size() * sizeof(float) * (1 + state_.optimizer.size()) + residuals +
                                lacks + bytes_of_groups(state_));
}

void Checkpointing::schedule_from_here() {
  schedule_.tried(state_.step);
  if (schedule_.automatic() && communicator_.rank() == Rank(0))
    log(Severity::info, "checkpoint.every = \"auto\": {}", schedule_.plan());
}

void Checkpointing::start(bool resumed) {
  auto levels = levels_setup(store_, place(), parallel::keeps_ranges(recipe_.parallel));
  checkpoint::Saver::Setup setup{run_name(store_), true, levels.has_value(), levels};
  const bool writes_beside = recipe_.checkpoint.mode != checkpoint::SaveMode::sync;
  saver_.emplace(store_, group_, writes_beside ? groups::make_writing_group(communicator_, group_.timeout()) : nullptr,
                 setup);
  const auto left = levels || communicator_.rank() != Rank(0) ? std::nullopt : step_left_in_memory(store_, Rank(0));
  if (left && *left > state_.step)
    log(Severity::warning,
        "the run continues from step {}; the snapshots of step {} in the nodes' memory are removed, because the job "
        "file "
        "does not ask for snapshots (checkpoint.memory_every and similar keys)",
        state_.step, *left);
  if (!levels) group_.all_gather("");  // the first rank has looked: each one sweeps the buffers of all on its node
  if (parallel::keeps_ranges(recipe_.parallel))
    ranges_.emplace(run_name(store_), start_of(store_.owner()), communicator_.rank().value,
                    static_cast<std::size_t>(recipe_.checkpoint.copy_threads));
  auto part = checkpointer_.part_of(state_);
  saver_->prepare(part.slices, part.state);
  const checkpoint::Protection elsewhere = checkpoint::used_levels(recipe_.checkpoint).in_memory();
  if (resumed && !elsewhere.is_empty()) begin_save({false, elsewhere});
}

void Checkpointing::keep(const KeptRange& kept) {
  const auto part = checkpointer_.part_of(kept.state, StateCheckpointer::Residuals::left_out);
  auto numbers = checkpointer_.numbers_of(state_);
  const std::int64_t samples = recipe_.parallel.microbatches * recipe_.parallel.microbatch_size;
  numbers["position"] = std::to_string(state_.position + kept.steps * samples);
  numbers["updates"] = std::to_string(state_.updates + kept.updates);
  numbers[kKeptRanges] = std::to_string(kept.ranges);
  ranges_->keep(kept.range, kept.ranges, Step(state_.step.value + kept.steps), part.slices, numbers);
}

void Checkpointing::forget_ranges() {
  if (ranges_) ranges_->remove();
}

bool Checkpointing::is_saved() {
  const auto newest = store_.newest(group_);
  return newest && newest->step == state_.step;
}

bool Checkpointing::is_due(Step step) const {
  return owed_ || schedule_.due(step);
}

bool Checkpointing::saves_after(Step step) const {
  return destination_of(recipe_.checkpoint, step, is_due(step)).has_value();
}

bool Checkpointing::is_busy(Step next) const {
  return is_busy() || saves_after(next);
}

void Checkpointing::save_if_due(bool worth_a_save) {
  if (auto destination = destination_of(recipe_.checkpoint, state_.step, worth_a_save)) save_on_the_way(*destination);
}

void Checkpointing::save_best() {
  try {
    saver_->wait();
  } catch (const StorageError& error) {  // of the save before
    if (error.exit_code() != ExitCode::storage) throw;
  }
  tell_outcomes();
  if (is_saved())
    tag_best();
  else
    save_if_due(true);
}

void Checkpointing::restore_best() {
  if (!recipe_.train.keep_best || !state_.best) return;
  const bool follows = state_.best->step == state_.step && !is_saved();  // it is evaluated again, and saved
  if (!follows) tag_best();
}

void Checkpointing::tag_best() try {
  if (communicator_.rank() == Rank(0))
    checkpoint::add_tag(store_.files(), store_.root(), state_.best->step, "best", true);
} catch (const StorageError& error) {
  log(Severity::warning, "the best evaluation was at step {}, but its checkpoint does not get the tag \"best\": {}",
      state_.best->step, error.what());
}

void Checkpointing::require_unchanged_data() try {
  checkpoint::agree_in_step(group_, fmt::format("save step {}", state_.step), [this] {
    sources_.require_unchanged();
    return std::string();
  });
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::storage) end();
  throw;
}

bool Checkpointing::begin_save(const checkpoint::Destination& destination) {
  observer_.save_begins();
  if (destination.file_system) require_unchanged_data();
  auto part = checkpointer_.part_of(state_);
  if (!saver_->save(state_.step, part.slices, part.state, destination)) return false;
  under_way_ = destination;
  return true;
}

void Checkpointing::save_last() {
  enter_phase(RankPhase::last_save);
  observer_.save_begins();
  require_unchanged_data();
  auto part = checkpointer_.part_of(state_);
  saver_->save_and_wait(state_.step, part.slices, part.state);
  for (const auto& outcome : saver_->outcomes()) tell(outcome);
  forget_ranges();
  saver_->close();
  enter_phase(RankPhase::report);
}

void Checkpointing::save_on_the_way(const checkpoint::Destination& destination) try {
  enter_phase(destination.file_system ? RankPhase::save : RankPhase::snapshot);
  if (destination.file_system) schedule_.tried(state_.step);
  const bool was_owed = std::exchange(owed_, false);
  if (begin_save(destination)) return;
  owed_ = destination.file_system && !under_way_.file_system;
  if (!was_owed) observer_.on(records::SaveSkipped{state_.step});
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::storage) throw;  // another run owns the folder, or a mistake of ours
  observer_.on(records::SaveFailed{state_.step, error.what()});
  if (communicator_.rank() == Rank(0))
    log(Severity::error, "{}; training continues, and the previous checkpoint is kept", error.what());
}

void Checkpointing::tell(const checkpoint::SaveOutcome& outcome) {
  const double seconds = outcome.durable_seconds;
  if (!outcome.unkept.empty()) observer_.on(records::SnapshotFailed{outcome.step, outcome.unkept});
  if (!outcome.file_system) {
    end_of_job_.snapshot_took(seconds);
    if (!outcome.error.empty()) return observer_.on(records::SnapshotFailed{outcome.step, outcome.error});
    if (outcome.unkept.empty())
      observer_.on(records::SnapshotKept{outcome.step, seconds, outcome.stall_seconds, outcome.levels});
    return;
  }
  end_of_job_.save_took(seconds);
  if (!outcome.error.empty()) return observer_.on(records::SaveFailed{outcome.step, outcome.error});
  observer_.on(records::CheckpointSaved{outcome.step, outcome.bytes, seconds, outcome.stall_seconds, outcome.levels});
  if (recipe_.train.keep_best && state_.best && state_.best->step == outcome.step) tag_best();
}

void Checkpointing::tell_outcomes() {
  for (const auto& outcome : saver_->outcomes()) {
    tell(outcome);
    if (!outcome.file_system || !outcome.error.empty() || end_of_job_.is_disturbed()) continue;
    if (schedule_.saved(outcome.stall_seconds, outcome.durable_seconds) && communicator_.rank() == Rank(0))
      log(Severity::info, "a checkpoint is now saved every {} steps: {}", schedule_.steps(), schedule_.reason());
  }
}

void Checkpointing::end() try {
  if (!saver_) return;
  forget_ranges();
  saver_->wait();
  tell_outcomes();
  saver_->close();
} catch (const StorageError&) {  // it was logged, and this run ends anyhow
}

std::vector<Step> Checkpointing::distrust(const std::string& reason) {
  forget_ranges();
  if (saver_) {
    try {
      saver_->wait();
    } catch (const StorageError& error) {  // of a save that would not count now
      log(Severity::warning, "{}", error.what());
    }
    tell_outcomes();
    saver_->close();
  }
  return store_.set_aside_after(group_, state_.audited, reason);
}

std::string Checkpointing::way_back() {
  const auto newest = store_.newest(group_);
  if (!newest) return "There is no checkpoint: the next start begins at step 0";
  return fmt::format(
      "The next start continues from step {}; if it diverges again, remove the folder \"{}\": then it continues from "
      "the "
      "previous checkpoint",
      newest->step, newest->folder.string());
}

}  // namespace distdl::train
