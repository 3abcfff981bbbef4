// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/train/server/lease_order.hpp>
#include <distdl/train/sync/own_order.hpp>
#include <distdl/train/sync/step.hpp>

namespace distdl::train {
void TrainingStep::start_reading(const data::Sources& sources, const data::Sampler& sampler,
                                 const TrainingState& state) {
  if (has_samples()) microbatches_.start_reading(sources, sampler, state, reading_order());
}

std::shared_ptr<const ReadingOrder> TrainingStep::reading_order() const {
  if (server_) return std::make_shared<LeaseOrder>(server_->parts(), static_cast<int>(server_->workers()));
  const OwnGroups groups = mesh_.has_groups() ? OwnGroups{mesh_.degrees().groups, mesh_.groups()} : OwnGroups{};
  return std::make_shared<OwnOrder>(plan_, rank_, groups, auditor_.every());
}

void TrainingStep::set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state) {
  plan_ = plan;
  range_ = plan.of(rank_);
  sum_.set_plan(plan);
  update_->set_plan(plan_);
  microbatches_.read_on(state, reading_order());
}

void TrainingStep::flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena, std::size_t part) {
  if (!pieces_[part].empty()) microbatches_.flip_bit_if_due(state, where, arena + pieces_[part].front().first);
}

void TrainingStep::tell(const Progress& now, const Requests& requests) {
  if (compresses_gradients()) now.before_update();  // sums change residuals
  if (requests.stop) tail_.request_stop();
  if (requests.save) tail_.request_save();
}

void TrainingStep::compute_own(const TrainingState& state, std::size_t device, float scale,
                               const model::Network::Finished& finished) {
  auto* const blocks = update_->blocks();
  const auto audited = auditor_.audited_after(state.step);
  const comm::LeafRange own = sum_.range(device);
  for (int m = own.first; m < own.first + own.count && !microbatches_.replicas().gives_up(); ++m) {
    const bool last = m + 1 == own.first + own.count;
    float* const gradients = sum_.microbatch_arena(0, device);
    microbatches_.compute(device, state, m, scale, gradients, last ? finished : model::Network::Finished());
    if (blocks) blocks->end_microbatch();
    microbatches_.flip_bit_if_due(state, BitFlip::Where::gradients, gradients);
    if (m == audited) {
      auditor_.note(gradients);
      if (plan_.ranges.size() == 1)
        auditor_.recompute_now(m, [&](int, float* again) { network_.forward_backward(again, scale); });
    }
    sum_.add(0, device);
  }
}

/// Of this rank's microbatches. The sum over the ranks begins during the last one, unless an audit comes first. Returns
/// whether it has, with these requests.
bool TrainingStep::add_gradients(Progress& now, float scale, const Requests& requests) {
  const TrainingState& state = now.state;
  bool told = false;
  const auto follow = [&] {
    if (update_->follows_passes()) update_between_layers(now);
  };
  const auto sum_from = [&](std::size_t place) {
    if (!std::exchange(told, true)) tell(now, requests);
    sum_.set_final(place);
    follow();
  };
  auto* const blocks = update_->blocks();
  if (blocks) blocks->join_others();
  const bool overlaps = sum_.is_divided() && backend_.memory_is_host() &&
                        ((!auditor_.is_due(state.step) && !microbatches_.has_flip()) || blocks);
  const auto compute_one = [&](std::size_t device) {
    const auto finished = [this, device](std::size_t place) {
      sum_.set_final(place, device);
      microbatches_.replicas().tell_progress();
    };
    if (!overlaps) return compute_own(state, device, scale, {});
    return device == 0 ? compute_own(state, device, scale, std::ref(sum_from))
                       : compute_own(state, device, scale, finished);
  };
  const auto follow_others = [&] {
    if (!told) return;
    sum_.advance();
    follow();
  };
  microbatches_.replicas().run(std::ref(compute_one), std::ref(follow_others));
  return told;
}

Pipeline::Calls TrainingStep::calls_from(const TrainingState& state, int first) {
  const auto take_batch = [this, &state, first](model::Network& network, int m) {
    if (network.reads_samples() || network.has_loss()) microbatches_.take_batch(network, state, first + m);
  };
  const auto computed = [this, &state](int, std::size_t part, float* gradients) {
    flip_bit_if_due(state, BitFlip::Where::results, gradients, part);
  };
  return {take_batch, [this, &state, first](int m) { microbatches_.set_key(state, first + m); }, computed};
}

void TrainingStep::pass_stages(const TrainingState& state, float scale) {
  const auto audited = auditor_.audited_after(state.step);
  auto calls = calls_from(state, range_.first);
  calls.computed = [&, flip = calls.computed](int m, std::size_t part, float* gradients) {
    flip(m, part, gradients);
    flip_bit_if_due(state, BitFlip::Where::gradients, gradients, part);
    if (range_.first + m == audited) auditor_.keep(gradients, pieces_[part]);
  };
  pipeline_->pass(sum_, scale, range_.count, calls);
  if (!audited) return;
  auditor_.note(auditor_.kept());
  if (plan_.ranges.size() == 1)
    auditor_.recompute_now(*audited, [&](int m, float* gradients) { repeat_stages(state, m, scale, gradients); });
}

void TrainingStep::repeat_stages(const TrainingState& state, int m, float scale, float* gradients) {
  pipeline_->repeat(m, gradients, scale, calls_from(state, 0));
}

parallel::StepTail::Sums TrainingStep::agree(const parallel::StepTail::Sums& mine, const float* gradients,
                                             std::optional<double>& squares) {
  // Where several replicas have different gradients, the first one tells all else.
  auto& group = squares_ ? squares_->ranks() : mesh_.replica();
  const bool tells = &group != &mesh_.world() || rank_ == Rank(0);
  const auto ranks = static_cast<std::size_t>(mesh_.degrees().parts());
  const std::size_t times = 5, others = times + 2 * ranks;  // where they begin
  std::vector<double> numbers(others + (squares_ ? squares_->count() : 0));
  if (squares_) {
    parallel::Squares terms(backend_, gradients);
    squares_->write(terms, std::span(numbers).subspan(others));
  }
  if (tells && networks().back()->has_loss() && mesh_.is_first_of_group())
    numbers[0] = mine.loss, numbers[1] = mine.correct, numbers[2] = mine.terms;
  numbers[3] = mine.stop ? 1 : 0;
  numbers[4] = mine.save ? 1 : 0;
  const std::size_t own = times + (pipeline_ ? static_cast<std::size_t>(mesh_.replica().rank().value) : 0);
  if (tells && pipeline_) numbers[own] = pipeline_->times().busy, numbers[own + ranks] = pipeline_->times().all;
  group.all_reduce(comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64)).wait();
  if (squares_) {
    const auto sums = squares_->sums(std::span<const double>(numbers).subspan(others));
    squares = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(times);
  const auto middle = begin + static_cast<std::ptrdiff_t>(ranks), end = middle + static_cast<std::ptrdiff_t>(ranks);
  pass_seconds_ = *std::max_element(middle, end);
  stages_waited_ = pass_seconds_ - std::accumulate(begin, middle, 0.0) / static_cast<double>(ranks);
  busiest_stages_ = *std::max_element(begin, middle);
  return {numbers[0], numbers[1], numbers[2], numbers[3] > 0, numbers[4] > 0};
}

const parallel::Bucket* TrainingStep::next_sum(Progress& now) {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  const auto* const bucket = sum_.next_sum();
  now.waited += watch.seconds();
  return bucket;
}

bool TrainingStep::await_gradients(Step step) {
  constexpr std::int64_t kEvery = 4;  // steps, on a device
  if (backend_.memory_is_host()) return true;
  if (step.value % kEvery != 0) return false;
  float last = 0;
  backend_.copy_to_host(&last, sum_.first_partial(), sizeof last);
  return true;
}

void TrainingStep::audit(TrainingState& state, float scale) {
  auditor_.audit(state, [&](int m, float* gradients) {
    if (pipeline_) return repeat_stages(state, m, scale, gradients);
    microbatches_.compute(0, state, m, scale, gradients);
  });
  state.audited = state.step;
}

void TrainingStep::begin_update(Progress& now) {
  now.begun = true;
  // The loss is the mean over the terms that count, and how many of all do so is known only now.
  auto sums = tail_.read(sum_.result());
  if (mesh_.has_parts() || squares_) sums = agree(sums, sum_.result(), now.squares);
  now.terms = sums.terms;
  now.result.agreed = {sums.stop, sums.save};
  now.result.loss = sums.loss / sums.terms;
  now.result.accuracy = sums.correct / sums.terms;
  now.result.learning_rate = optim::learning_rate(recipe_.optim, now.state.step, total_, plan_.global_batch());
  enter_phase(RankPhase::copy);
  now.before_update();
  if (now.in_parts) prepare_update(now);
}

void TrainingStep::prepare_update(Progress& now) {
  const auto& state = now.state;
  now.result.norm =
      update_->prepare({now.result.learning_rate, state.step.value, state.updates, plan_.microbatches,
                        now.all_terms / now.terms / now.loss_scale, state.held_updates, holds_second_moments()},
                       now.squares);
}

/// What is summed already is updated in the backward pass, which needs it no more, and goes to the other ranks. Else
/// their all-gathers would begin after the pass. What needs all sums is updated later.
void TrainingStep::update_between_layers(Progress& now) {
  const Stopwatch watch;
  while (sum_.has_sum()) {
    const auto* const bucket = next_sum(now);
    if (!now.in_parts) continue;
    if (!now.begun) begin_update(now);
    update(now, {bucket->first, bucket->end});
  }
  enter_phase(RankPhase::compute);
  now.between += watch.seconds();
}

void TrainingStep::update(Progress& now, const optim::Elements& elements) {
  enter_phase(RankPhase::update);
  update_->apply(now.state, elements);
}

void TrainingStep::update_all(Progress& now) {
  while (const auto* const bucket = now.in_parts ? next_sum(now) : nullptr) update(now, {bucket->first, bucket->end});
  if (now.in_parts) return enter_phase(RankPhase::update);
  for (const auto& part : update_->parts()) update(now, part);
}

void TrainingStep::change_parameters(Progress& now) {
  const auto change = [&] { update_all(now); };
  if (update_->is_alone() && !pipeline_ && devices() == 1)
    return network_.change_parameters(std::ref(change));  // which has room in a std::function
  // Not recorded on a device: other ranks take part.
  update_->adapt(now.state);
  float* const parameters = now.state.parameter_arena();
  if (pipeline_) pipeline_->receive_borrowed(parameters);
  change();
  now.waited += update_->finish(now.state);
  if (pipeline_) pipeline_->send_lent(parameters);
  load(parameters);
}

TrainingStep::Result TrainingStep::operator()(TrainingState& state, const Requests& requests,
                                              const std::function<void()>& before_update) {
  return local_ ? step_of_groups(state, requests, before_update) : step(state, requests, before_update);
}

TrainingStep::Result TrainingStep::step(TrainingState& state, const Requests& requests,
                                        const std::function<void()>& before_update) {
  const double waited = data_waited_seconds();
  const bool scaled = update_->scales();
  Progress now{.state = state,
               .before_update = before_update,
               .all_terms = static_cast<double>(plan_.global_batch() * network_.terms()),
               .loss_scale = state.loss_scale.value(),
               .in_parts = update_->is_in_parts()};
  const auto scale = static_cast<float>(now.loss_scale / now.all_terms);
  microbatches_.flip_bit_if_due(state, BitFlip::Where::parameters, state.parameter_arena());
  begin_compression(state, before_update);
  const Stopwatch computing;
  update_->begin_step();
  if (pipeline_) pass_stages(state, scale);
  const bool told = !pipeline_ && add_gradients(now, scale, requests);
  const auto* const blocks = update_->blocks();
  const double for_parameters = blocks ? blocks->waited_seconds() : 0;
  now.between += for_parameters;
  now.waited += for_parameters;
  if (await_gradients(state.step))
    now.result.compute_seconds = computing.seconds() - now.between - (data_waited_seconds() - waited);
  if (auditor_.is_due(state.step)) {
    const Stopwatch watch;
    audit(state, scale);
    now.result.audit_seconds = watch.seconds();
  }
  if (!told) tell(now, requests);
  if (now.in_parts && !now.begun) next_sum(now);
  while (!now.in_parts && next_sum(now) != nullptr) {
  }
  if (!now.begun) begin_update(now);
  Result& result = now.result;
  enter_phase(RankPhase::update);
  result.skipped = scaled && !(now.squares ? std::isfinite(*now.squares) : update_->is_finite());
  if (!result.skipped) {
    if (!now.in_parts) prepare_update(now);
    change_parameters(now);
    state.updates += 1;
    state.held_updates += holds_second_moments() ? 1 : 0;
  } else {
    update_->skip();
  }
  if (scaled) {
    state.loss_scale.step_done(!result.skipped);
    result.loss_scale = now.loss_scale;
  }
  state.step.value += 1;
  state.position += step_samples();
  if (compresses_gradients()) {
    result.compression = compression_->in_use();
    result.compression_change = compression_->step_done(sum_.seconds(), now.waited);
  }
  if (plan_.ranges.size() > 1) result.sum_seconds = sum_.seconds(), result.sum_waited_seconds = now.waited;
  if (blocks && mesh_.has_parts()) *result.sum_seconds += blocks->waited_seconds();
  result.waited_seconds = data_waited_seconds() - waited;
  if (pipeline_) {
    result.pipeline_seconds = pass_seconds_;
    result.pipeline_waited_seconds = stages_waited_;
    result.pipeline_busiest_seconds = busiest_stages_;
  }
  return result;
}

}  // namespace distdl::train
