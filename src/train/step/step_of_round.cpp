// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/train/step/step.hpp>

namespace distdl::train {

void TrainingStep::compute_leased(const TrainingState& state, std::int64_t step, comm::TreeNode part, float scale,
                                  float* gradients) {
  const comm::LeafRange all = comm::leaves_of(part, plan_.microbatches);
  std::vector<comm::TreeNode> nodes;
  std::vector<std::size_t> ends;  ///< of each tower's nodes
  for (const auto own : parallel::divided(all, towers_.size())) {
    const auto cover = comm::cover(own, plan_.microbatches);
    nodes.insert(nodes.end(), cover.begin(), cover.end());
    ends.push_back(nodes.size());
  }
  while (tower_sums_.size() + 1 < nodes.size())
    tower_sums_.push_back(backend_.allocate(network_.gradient_count() * sizeof(float)));
  const auto sum_of = [&](std::size_t node) {
    return node == 0 ? gradients : tower_sums_[node - 1].as<float>().data();
  };
  towers_.run([&](std::size_t tower) {
    for (std::size_t node = tower == 0 ? 0 : ends[tower - 1]; node < ends[tower]; ++node)
      compute_part(towers_[tower], state, step, nodes[node], scale, sum_of(node));
  });
  for (const auto [into, from] : comm::summation(nodes, all, plan_.microbatches).additions)
    backend_.add(sum_of(static_cast<std::size_t>(into)), sum_of(static_cast<std::size_t>(from)),
                 network_.gradient_count());
}

void TrainingStep::compute_part(Tower& tower, const TrainingState& state, std::int64_t step, comm::TreeNode part,
                                float scale, float* gradients) {
  const comm::LeafRange microbatches = comm::leaves_of(part, plan_.microbatches);
  if (microbatches.count == 1)
    return compute(tower, state, static_cast<int>(step * plan_.microbatches) + microbatches.first, scale, gradients);
  const comm::TreeNode left{part.level - 1, 2 * part.index}, right{part.level - 1, 2 * part.index + 1};
  compute_part(tower, state, step, left, scale, gradients);
  if (comm::leaves_of(right, plan_.microbatches).count == 0) return;
  const auto level = static_cast<std::size_t>(right.level);
  auto& sums = tower.partial_sums;
  if (sums.size() <= level) sums.resize(level + 1);
  if (sums[level].bytes() == 0) sums[level] = tower.backend->allocate(network_.gradient_count() * sizeof(float));
  float* const other = sums[level].as<float>().data();
  compute_part(tower, state, step, right, scale, other);
  tower.backend->add(gradients, other, network_.gradient_count());
}

void TrainingStep::compute_leased(const TrainingState& state, const parallel::server::Runtime::Work& work,
                                  float scale) {
  const bool is_far = device_gradients_.bytes() > 0;
  float* const gradients = is_far ? device_gradients_.as<float>().data() : work.gradients;
  compute_leased(state, work.step, work.part, scale, gradients);
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
