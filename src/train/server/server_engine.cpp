// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/train/sync/step.hpp>

namespace distdl::train {

void TrainingStep::compute_leased(const TrainingState& state, const parallel::server::Runtime::Work& work,
                                  float scale) {
  const bool is_far = device_gradients_.bytes() > 0;
  float* const gradients = is_far ? device_gradients_.as<float>().data() : work.gradients;
  microbatches_.compute_sum(state, work.step, work.part, scale, gradients);
  if (is_far) backend_.copy_to_host(work.gradients, gradients, device_gradients_.bytes());
}

void TrainingStep::work(const TrainingState& state, const RoundCalls& calls, double& waited) {
  const auto scale = static_cast<float>(1 / static_cast<double>(plan_.global_batch() * network_.terms()));
  const bool is_synchronous = recipe_.parallel.server_mode == parallel::server::Mode::synchronous;
  std::int64_t loaded = -1;  ///< step
  bool ends = false;
  const auto look = [&] {
    enter_phase(RankPhase::reduce);
    if (ends || !calls.wants_end()) return;
    ends = true;
    server_->end_soon();
  };
  while (true) {
    look();
    const Stopwatch watch;
    const auto next = server_->next(look);
    waited += watch.seconds();
    if (!next) return;
    enter_phase(RankPhase::compute);
    if (!is_synchronous || std::exchange(loaded, next->step) != next->step) load_parameters(next->parameters);
    compute_leased(state, *next, scale);
    server_->computed();
  }
}

TrainingStep::Round TrainingStep::round(TrainingState& state, std::int64_t most_steps, const RoundCalls& calls) {
  const double waited_for_data = data_waited_seconds();
  double waited = 0;
  enter_phase(RankPhase::copy);
  calls.before_update();
  server_->begin(state, most_steps);
  std::int64_t steps = 0;
  try {
    work(state, calls, waited);
    steps = server_->end();
  } catch (const std::exception& error) {
    server_->abort(message_of(error), exit_code_of(error));
    throw;
  }
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  const auto requests = calls.requests(Step(state.step.value + steps));
  auto told = server_->meet(steps, requests.stop, requests.save);
  waited += watch.seconds();
  const double waited_in_step = waited / static_cast<double>(steps);
  const std::string compression = server_->compression();
  auto change = server_->choose_compression(steps, waited_in_step);
  const bool is_synchronous = recipe_.parallel.server_mode == parallel::server::Mode::synchronous;
  Round done{{told.stop, told.save}, {}, std::move(told.staleness)};
  for (const auto& totals : told.totals) {
    const double terms = std::max(totals.terms, 1.0);
    Result& result = done.steps.emplace_back();
    result.loss = totals.loss / terms;
    result.accuracy = totals.correct / terms;
    result.learning_rate = optim::learning_rate(recipe_.optim, state.step, total_, plan_.global_batch());
    result.waited_seconds = (data_waited_seconds() - waited_for_data) / static_cast<double>(steps);
    if (mesh_.world().size() > 1) result.sum_seconds = result.sum_waited_seconds = waited_in_step;
    result.compression = compression;
    state.step.value += 1;
    state.position += step_samples();
    state.updates += is_synchronous ? 1 : plan_.microbatches;
  }
  done.steps.back().compression_change = std::move(change);
  load_parameters(state.parameter_arena());
  return done;
}

}  // namespace distdl::train
