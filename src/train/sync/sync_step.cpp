// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/train/sync/sync_step.hpp>

namespace distdl::train {

SyncStep::SyncStep(const StepParts& parts, TrainingState& state, const StepRequests& requests,
                   const std::function<void()>& before_update)
    : parts_(parts),
      state_(state),
      requests_(requests),
      before_update_(before_update),
      all_terms_(static_cast<double>(parts.plan.global_batch() * parts.microbatches.network().terms())),
      loss_scale_(state.loss_scale.value()),
      in_parts_(parts.update.is_in_parts()) {}

StepResult SyncStep::operator()() {
  const auto before = parts_.microbatches.counts();
  const bool scales = parts_.update.scales();
  parts_.microbatches.flip_bit_if_due(state_, BitFlip::Where::parameters, state_.parameter_arena());
  if (parts_.compression) parts_.compression->begin_step(state_, before_update_);
  compute();
  audit();
  if (!has_begun_) begin_sums();
  sum_up();
  enter_phase(RankPhase::update);
  result_.record.skipped = scales && overflowed();
  if (result_.record.skipped) {
    parts_.update.skip();
    if (parts_.compression) GradientCompression::skip(state_);
  } else {
    finish_update();
  }
  if (scales) {
    state_.loss_scale.step_done(!result_.record.skipped);
    result_.record.loss_scale = loss_scale_;
  }
  state_.step.value += 1;
  state_.position += parts_.microbatches.step_samples();
  note_measures(before);
  return result_;
}

void SyncStep::compute() {
  const double waited = parts_.microbatches.counts().waited_seconds;
  const Stopwatch computing;
  parts_.update.begin_step(parts_.compression ? parts_.compression->encoding() : parallel::Compression::none);
  parts_.passes.run(*this);
  const auto* const blocks = parts_.update.blocks();
  const double for_parameters = blocks ? blocks->waited_seconds() : 0;
  between_ += for_parameters;
  waited_ += for_parameters;
  if (await_gradients())
    result_.compute_seconds = computing.seconds() - between_ - (parts_.microbatches.counts().waited_seconds - waited);
}

bool SyncStep::await_gradients() const {
  constexpr std::int64_t kEvery = 4;  // steps, on a device
  if (parts_.backend.memory_is_host()) return true;
  if (state_.step.value % kEvery != 0) return false;
  float last = 0;
  parts_.backend.copy_to_host(&last, parts_.sum.first_partial(), sizeof last);
  return true;
}

void SyncStep::audit() {
  if (!parts_.auditor.is_due(state_.step)) return;
  const Stopwatch watch;
  parts_.auditor.audit(state_,
                       [this](int m, float* gradients) { parts_.passes.repeat(state_, m, scale(), gradients); });
  state_.audited = state_.step;
  result_.audit_seconds = watch.seconds();
}

void SyncStep::begin_sums() {
  has_begun_ = true;
  if (parts_.compression) before_update_();  // sums change residuals
  if (requests_.stop) parts_.totals.request_stop();
  if (requests_.save) parts_.totals.request_save();
}

/// Updates, during the backward pass, parameters whose gradients are summed already. The pass does not need them any
/// more, and the other ranks can gather them; otherwise the all-gathers would begin after the pass. An update that
/// needs all sums comes later.
void SyncStep::follow_sums() {
  if (!parts_.update.follows_passes()) return;
  const Stopwatch watch;
  while (parts_.sum.has_sum()) {
    const auto* const bucket = next_sum();
    if (!in_parts_) continue;
    if (!is_updated_) begin_update();
    apply({bucket->first, bucket->end});
  }
  enter_phase(RankPhase::compute);
  between_ += watch.seconds();
}

const parallel::Bucket* SyncStep::next_sum() {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  const auto* const bucket = parts_.sum.next_sum();
  waited_ += watch.seconds();
  return bucket;
}

void SyncStep::sum_up() {
  if (in_parts_ && !is_updated_) next_sum();
  while (!in_parts_ && next_sum() != nullptr) {
  }
  if (!is_updated_) begin_update();
}

/// The loss is the mean over the terms that count, and how many of all do so is known with the first sum only.
void SyncStep::begin_update() {
  is_updated_ = true;
  totals_ = parts_.totals.sum(parts_.passes.times());
  result_.agreed = {totals_.stop, totals_.save};
  result_.record.loss = totals_.loss / totals_.terms;
  result_.record.accuracy = totals_.correct / totals_.terms;
  result_.record.learning_rate =
      optim::learning_rate(parts_.recipe.optim, state_.step, parts_.total, parts_.plan.global_batch());
  enter_phase(RankPhase::copy);
  before_update_();
  if (in_parts_) prepare_update();
}

void SyncStep::prepare_update() {
  result_.record.gradient_norm =
      parts_.update.prepare({*result_.record.learning_rate, state_.step.value, state_.updates, parts_.plan.microbatches,
                             all_terms_ / totals_.terms / loss_scale_, state_.held_updates,
                             parts_.compression && parts_.compression->holds_second_moments()},
                            totals_.squares);
}

bool SyncStep::overflowed() const {
  return totals_.squares ? !std::isfinite(*totals_.squares) : !parts_.update.is_finite();
}

void SyncStep::apply(const optim::Elements& elements) {
  enter_phase(RankPhase::update);
  parts_.update.apply(state_, elements);
}

void SyncStep::finish_update() {
  if (!in_parts_) prepare_update();
  Update& update = parts_.update;
  const auto change = [&] {
    if (in_parts_) {
      while (const auto* const bucket = next_sum()) apply({bucket->first, bucket->end});
      enter_phase(RankPhase::update);
    } else {
      for (const auto& part : update.parts()) apply(part);
    }
    waited_ += update.finish(state_);
  };
  update.adapt(state_);
  // A reference has room in a std::function.
  parts_.passes.change_parameters(state_.parameter_arena(), update.is_alone(), std::ref(change));
  state_.updates += 1;
  state_.held_updates += parts_.compression && parts_.compression->holds_second_moments() ? 1 : 0;
}

void SyncStep::note_measures(const Microbatches::Counts& before) {
  records::StepDone& record = result_.record;
  if (parts_.compression) {
    record.compression = parts_.compression->in_use();
    result_.compression_change = parts_.compression->step_done(parts_.sum.seconds(), waited_);
  }
  if (parts_.plan.ranges.size() > 1) {
    const auto* const blocks = parts_.update.blocks();
    const double for_parameters = blocks && parts_.mesh.has_parts() ? blocks->waited_seconds() : 0;
    // A wait also has the time until this thread runs again, which may be longer than a short sum.
    record.sum_seconds = std::max(parts_.sum.seconds() + for_parameters, waited_);
    record.sum_waited_seconds = waited_;
  }
  parts_.microbatches.note_counts(before, record);
  if (!totals_.stages) return;
  record.pipeline_seconds = totals_.stages->seconds;
  record.pipeline_waited_seconds = totals_.stages->waited;
  record.pipeline_busiest_seconds = totals_.stages->busiest;
}

}  // namespace distdl::train
