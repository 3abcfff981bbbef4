// SPDX-License-Identifier: Apache-2.0
#include <span>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/train/local_sgd/local_sgd_engine.hpp>
#include <distdl/train/state/group_state.hpp>

namespace distdl::train {
namespace {
/// Adds the times of a group, because the groups of a rank do their steps one after the other.
void add_times(StepResult& all, const StepResult& group) {
  const auto add = [](std::optional<double>& sum, const std::optional<double>& seconds) {
    if (seconds) sum = sum.value_or(0) + *seconds;
  };
  add(all.compute_seconds, group.compute_seconds);
  add(all.record.sum_seconds, group.record.sum_seconds);
  add(all.record.sum_waited_seconds, group.record.sum_waited_seconds);
}
}  // namespace

LocalSgdEngine::LocalSgdEngine(const EngineSetup& setup)
    : recipe_(setup.recipe),
      mesh_(setup.mesh),
      backend_(setup.backend),
      held_(setup.held),
      sync_(setup),
      groups_(recipe_.parallel, mesh_, backend_, held_.tensors.layout, setup.total),
      device_parameters_(backend_) {
  if (!recipe_.parallel.compression.is_on()) return;
  // A round ends with one sum of all ranks.
  const parallel::Bucket all{0, held_.tensors.layout.size()};
  const auto& layout = held_.tensors.layout;
  compression_.emplace(recipe_.parallel, recipe_.optim,
                       GradientCompression::Sums{mesh_.world(), mesh_.world(), layout, layout, std::span(&all, 1)},
                       backend_, all_labels_count(held_.model.loss));
}

void LocalSgdEngine::allocate(TrainingState& state) {
  device_parameters_.allocate(state.parameters.bytes());
  sync_.allocate(state);
  if (compression_) compression_->allocate(state);
  allocate_groups(state, backend_, held_.tensors.layout, sync_.needs().arenas, mesh_);
}

Engine::Advance LocalSgdEngine::advance(TrainingState& state, std::int64_t, const Calls& calls) {
  StepResult all = do_groups(state, calls.requests(Step(state.step.value + 1)), calls.before_update);
  meet(state, all);
  return {all.agreed, {all}};
}

StepResult LocalSgdEngine::do_groups(TrainingState& state, const StepRequests& requests,
                                     const std::function<void()>& before_update) {
  StepResult all;
  all.compute_seconds = 0;
  if (mesh_.world().size() > 1) all.record.sum_seconds = all.record.sum_waited_seconds = 0;
  if (compression_) {
    compression_->begin_step(state, before_update);
    all.record.compression = compression_->in_use();
  }
  const auto before = sync_.microbatches().counts();
  for (std::size_t i = 0; i < state.groups.size(); ++i) {
    auto& group = state.groups[i];
    group.step = state.step;
    group.position = state.position;
    group.updates = state.updates;
    group.held_updates = state.held_updates;
    group.loss_scale = state.loss_scale;
    sync_.load_parameters(group.parameter_arena());
    const StepResult done =
        sync_.step_of_group(state.first_group + static_cast<int>(i), group, requests, before_update);
    auto& figures = groups_.figures(i);
    figures = {.stop = done.agreed.stop ? 1.0 : 0.0,
               .save = done.agreed.save ? 1.0 : 0.0,
               .skipped = done.record.skipped ? 1.0 : 0.0};
    for (std::size_t field = 0; field < LocalSgd::kMeans.size(); ++field) {
      const auto& value = done.record.*LocalSgd::kMeans[field];
      if (value) all.record.*LocalSgd::kMeans[field] = 0;
      figures.means[field] = value.value_or(0);
    }
    all.record.learning_rate = done.record.learning_rate;
    add_times(all, done);
  }
  sync_.microbatches().note_counts(before, all.record);
  return all;
}

void LocalSgdEngine::meet(TrainingState& state, StepResult& all) {
  enter_phase(RankPhase::reduce);
  const Stopwatch together;
  const auto means = groups_.means();
  state.step.value += 1;
  state.position += sync_.microbatches().step_samples();
  if (means.skipped < mesh_.degrees().groups) state.updates += 1;
  scale_loss(state, means.skipped > 0, all.record);
  if (groups_.ends_round(state.step)) end_round(state, all);
  all.agreed = {means.stop > 0, means.save > 0};
  records::StepDone& record = all.record;
  for (std::size_t field = 0; field < LocalSgd::kMeans.size(); ++field)
    if (auto& value = record.*LocalSgd::kMeans[field]) value = means.means[field];
  if (!record.sum_seconds) return;
  *record.sum_seconds += together.seconds();
  *record.sum_waited_seconds += together.seconds();
}

/// All groups have one scale of the loss, which an overflow in any of them halves.
void LocalSgdEngine::scale_loss(TrainingState& state, bool has_overflow, records::StepDone& record) const {
  if (backend_.activation_type() != tensor::DataType::float16) return;
  record.skipped = has_overflow;
  record.loss_scale = state.loss_scale.value();
  state.loss_scale.step_done(!has_overflow);
}

void LocalSgdEngine::end_round(TrainingState& state, StepResult& all) {
  const double seconds = groups_.end_round(state, compression_ ? &compression_->sum() : nullptr);
  if (compression_) all.compression_change = compression_->step_done(seconds, seconds);
}

}  // namespace distdl::train
