// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/train/sync/step.hpp>

namespace distdl::train {

TrainingStep::Result TrainingStep::step_of_groups(TrainingState& state, const Requests& requests,
                                                  const std::function<void()>& before_update) {
  Result all;
  if (compression_) {
    compression_->begin_step(state, before_update);
    all.compression = compression_->in_use();
  }
  double compute = 0, sum = 0, waited = 0;
  for (std::size_t i = 0; i < state.groups.size(); ++i) {
    auto& group = state.groups[i];
    group.step = state.step;
    group.position = state.position;
    group.updates = state.updates;
    group.held_updates = state.held_updates;
    microbatches_.count_from((state.first_group + static_cast<int>(i)) * plan_.microbatches);
    load(group.parameter_arena());
    const Result done = step(group, requests, before_update);
    local_->figures(i) = {done.loss, done.accuracy, done.norm.value_or(0), done.agreed.stop ? 1.0 : 0.0,
                          done.agreed.save ? 1.0 : 0.0};
    all.learning_rate = done.learning_rate;
    all.waited_seconds += done.waited_seconds;
    compute += done.compute_seconds.value_or(0);
    sum += done.sum_seconds.value_or(0);
    waited += done.sum_waited_seconds.value_or(0);
  }
  enter_phase(RankPhase::reduce);
  const Stopwatch together;
  const auto means = local_->means();
  state.step.value += 1;
  state.position += step_samples();
  state.updates += 1;
  if (local_->ends_round(state.step)) end_round(state, all);
  all.agreed = {means.stop > 0, means.save > 0};
  all.loss = means.loss;
  all.accuracy = means.accuracy;
  if (recipe_.optim.clip_norm > 0) all.norm = means.norm;
  all.compute_seconds = compute;
  if (mesh_.world().size() > 1) {
    all.sum_seconds = sum + together.seconds();
    all.sum_waited_seconds = waited + together.seconds();
  }
  return all;
}

void TrainingStep::end_round(TrainingState& state, Result& all) {
  const double seconds = local_->end_round(state, compression_ ? &compression_->sum() : nullptr);
  if (compression_) all.compression_change = compression_->step_done(seconds, seconds);
}

}  // namespace distdl::train
