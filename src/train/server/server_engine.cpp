// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/train/server/lease_order.hpp>
#include <distdl/train/server/server_engine.hpp>

namespace distdl::train {

ServerEngine::ServerEngine(const EngineSetup& setup)
    : recipe_(setup.recipe),
      mesh_(setup.mesh),
      backend_(setup.backend),
      plan_(setup.plan),
      total_(setup.total),
      microbatches_(recipe_, backend_, setup.held, mesh_.world().rank(), plan_.microbatches, plan_.microbatch_size,
                    setup.setting.devices_per_rank),
      server_(recipe_, mesh_, setup.cluster.value(), setup.held.tensors.layout, plan_, all_terms(), total_),
      range_balancing_(recipe_, setup.setting, mesh_.world(), setup.observer, setup.held.tensors.layout, server_),
      device_parameters_(backend_) {}

Engine::Needs ServerEngine::needs() const {
  return {.arenas = optim::state_of(recipe_.optim),
          .shard = server_.shard(),
          .in_host_memory = true,
          .saves_shard = parallel::keeps_ranges(recipe_.parallel)};
}

void ServerEngine::allocate(TrainingState& state) {
  device_parameters_.allocate(state.parameters.bytes());
  if (!backend_.memory_is_host())
    device_gradients_ = backend_.allocate(microbatches_.network().gradient_count() * sizeof(float));
  server_.allocate(state);
}

void ServerEngine::start_reading(const data::Sources& sources, const data::Sampler& sampler,
                                 const TrainingState& state) {
  microbatches_.start_reading(sources, sampler, state,
                              std::make_shared<LeaseOrder>(server_.parts(), static_cast<int>(server_.workers())));
}

void ServerEngine::load_parameters(const float* arena) {
  const float* const parameters = on_device(arena);
  auto& replicas = microbatches_.replicas();
  replicas.run([&](std::size_t device) { replicas[device].network->load_parameters(parameters); });
}

void ServerEngine::compute(const TrainingState& state, const parallel::server::Runtime::Work& work, float scale) {
  const bool is_far = device_gradients_.bytes() > 0;
  float* const gradients = is_far ? device_gradients_.as<float>().data() : work.gradients;
  microbatches_.compute_sum(state, work.step, work.part, scale, gradients);
  if (is_far) backend_.copy_to_host(work.gradients, gradients, device_gradients_.bytes());
}

double ServerEngine::work(const TrainingState& state, const Calls& calls) {
  const auto scale = static_cast<float>(1 / all_terms());
  std::int64_t loaded = -1;  ///< step
  double waited = 0;
  bool ends = false;
  const auto look = [&] {
    enter_phase(RankPhase::reduce);
    if (ends || !calls.wants_end()) return;
    ends = true;
    server_.end_soon();
  };
  while (true) {
    look();
    const Stopwatch watch;
    const auto next = server_.next(look);
    waited += watch.seconds();
    if (!next) return waited;
    enter_phase(RankPhase::compute);
    if (!is_synchronous() || std::exchange(loaded, next->step) != next->step) load_parameters(next->parameters);
    compute(state, *next, scale);
    server_.computed();
  }
}

Engine::Advance ServerEngine::advance(TrainingState& state, std::int64_t most_steps, const Calls& calls) {
  const auto before = microbatches_.counts();
  double waited = 0;
  enter_phase(RankPhase::copy);
  calls.before_update();
  server_.begin(state, most_steps);
  std::int64_t steps = 0;
  try {
    waited = work(state, calls);
    steps = server_.end();
  } catch (const std::exception& error) {
    server_.abort(message_of(error), exit_code_of(error));
    throw;
  }
  Advance done = meet(state, steps, calls, waited);
  for (auto& result : done.steps) microbatches_.note_counts(before, result.record, steps);
  load_parameters(state.parameter_arena());
  return done;
}

Engine::Advance ServerEngine::meet(TrainingState& state, std::int64_t steps, const Calls& calls, double waited) {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  const auto requests = calls.requests(Step(state.step.value + steps));
  auto told = server_.meet(steps, requests.stop, requests.save);
  waited += watch.seconds();
  const double waited_in_step = waited / static_cast<double>(steps);
  const std::string compression = server_.compression();
  auto change = server_.choose_compression(steps, waited_in_step);
  Advance done{{told.stop, told.save}, {}};
  for (const auto& totals : told.totals) {
    const double terms = std::max(totals.terms, 1.0);
    records::StepDone& record = done.steps.emplace_back().record;
    record.loss = totals.loss / terms;
    record.accuracy = totals.correct / terms;
    record.learning_rate = optim::learning_rate(recipe_.optim, state.step, total_, plan_.global_batch());
    if (mesh_.world().size() > 1) record.sum_seconds = record.sum_waited_seconds = waited_in_step;
    record.compression = compression;
    state.step.value += 1;
    state.position += microbatches_.step_samples();
    state.updates += is_synchronous() ? 1 : plan_.microbatches;
  }
  done.steps.back().record.staleness = std::move(told.staleness);
  done.steps.back().compression_change = std::move(change);
  return done;
}

}  // namespace distdl::train
