// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/compute/microbatches.hpp>

namespace distdl::train {

Microbatches::Microbatches(const Recipe& recipe, kernels::Backend& backend, const OwnedModel& held, Rank self,
                           int of_step, std::int64_t samples, std::int64_t devices)
    : recipe_(recipe),
      backend_(backend),
      self_(self),
      of_step_(of_step),
      samples_(samples),
      replicas_(recipe, backend, held, samples, devices) {}

void Microbatches::note_counts(const Counts& before, records::StepDone& record, std::int64_t steps) const {
  record.waited_seconds = (counts().waited_seconds - before.waited_seconds) / static_cast<double>(steps);
}

void Microbatches::start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state,
                                 const std::shared_ptr<const ReadingOrder>& order) {
  for (std::size_t device = 0; device < replicas_.size(); ++device) {
    DeviceReplica& own = replicas_[device];
    if (device > 0)
      own.sources =
          data::open_sources(recipe_.data, recipe_.model.context, static_cast<std::uint64_t>(recipe_.train.seed));
    auto& source = device > 0 ? *own.sources.training : *sources.training;
    own.reader.emplace(source, sampler, samples_, positions_from(state, order, device), data::Prefetcher::kUsualDepth,
                       data::Mixing(recipe_.data, static_cast<std::uint64_t>(recipe_.train.seed)));
  }
}

void Microbatches::read_on(const TrainingState& state, const std::shared_ptr<const ReadingOrder>& order) {
  if (auto& reader = replicas_[0].reader)
    reader->read_from(state.position + order->first() * samples_, positions_from(state, order, 0));
}

data::Prefetcher::Next Microbatches::positions_from(const TrainingState& state,
                                                    const std::shared_ptr<const ReadingOrder>& order,
                                                    std::size_t device) const {
  const auto next = [order, start = state.position, from = state.step.value, step = step_samples(),
                     size = samples_](std::int64_t position) {
    const std::int64_t within = (position - start) % step, begin = position - within;
    return begin + order->after(Step(from + (begin - start) / step), static_cast<int>(within / size)) * size;
  };
  if (replicas_.size() == 1) return next;
  const auto computes = [order, devices = replicas_.size(), device](int m) {
    const auto own = parallel::divided(order->divided_with(m), devices)[device];
    return own.first <= m && m < own.first + own.count;
  };
  return [next, computes, start = state.position, step = step_samples(), size = samples_](std::int64_t position) {
    do position = next(position);
    while (!computes(static_cast<int>((position - start) % step / size)));
    return position;
  };
}

void Microbatches::take_batch(model::Network& network, const TrainingState& state, int m, std::size_t device) {
  enter_phase(RankPhase::data);
  const data::Batch& batch = replicas_[device].reader->at(state.position + (first_ + m) * samples_);
  enter_phase(RankPhase::compute);
  network.set_batch(batch.samples(), batch.wanted());
}

void Microbatches::set_key(const TrainingState& state, int m, std::size_t device) {
  replicas_[device].backend->set_rng_key({static_cast<std::uint64_t>(recipe_.train.seed),
                                          static_cast<std::uint64_t>(state.step.value * of_step_ + first_ + m)});
}

void Microbatches::compute(std::size_t device, const TrainingState& state, int m, float scale, float* gradients,
                           const model::Network::Finished& finished) {
  model::Network& network = *replicas_[device].network;
  take_batch(network, state, m, device);
  set_key(state, m, device);
  network.forward_backward(gradients, scale, finished);
  flip_bit_if_due(state, BitFlip::Where::results, gradients);
}

void Microbatches::compute_sum(const TrainingState& state, std::int64_t step, comm::TreeNode part, float scale,
                               float* gradients) {
  const comm::LeafRange all = comm::leaves_of(part, of_step_);
  const std::size_t count = network().gradient_count();
  std::vector<comm::TreeNode> nodes;
  std::vector<std::size_t> ends;  ///< end of each device's range in `nodes`
  for (const auto own : parallel::divided(all, replicas_.size())) {
    const auto cover = comm::cover(own, of_step_);
    nodes.insert(nodes.end(), cover.begin(), cover.end());
    ends.push_back(nodes.size());
  }
  while (sums_.size() + 1 < nodes.size()) sums_.push_back(backend_.allocate(count * sizeof(float)));
  const auto sum_of = [&](std::size_t node) { return node == 0 ? gradients : sums_[node - 1].as<float>().data(); };
  replicas_.run([&](std::size_t device) {
    for (std::size_t node = device == 0 ? 0 : ends[device - 1]; node < ends[device]; ++node)
      compute_part(device, state, step, nodes[node], scale, sum_of(node));
  });
  for (const auto [into, from] : comm::summation(nodes, all, of_step_).additions)
    backend_.add(sum_of(static_cast<std::size_t>(into)), sum_of(static_cast<std::size_t>(from)), count);
}

void Microbatches::compute_part(std::size_t device, const TrainingState& state, std::int64_t step, comm::TreeNode part,
                                float scale, float* gradients) {
  const comm::LeafRange leaves = comm::leaves_of(part, of_step_);
  if (leaves.count == 1)
    return compute(device, state, static_cast<int>(step * of_step_) + leaves.first, scale, gradients);
  const comm::TreeNode left{part.level - 1, 2 * part.index}, right{part.level - 1, 2 * part.index + 1};
  compute_part(device, state, step, left, scale, gradients);
  if (comm::leaves_of(right, of_step_).count == 0) return;
  DeviceReplica& own = replicas_[device];
  const auto level = static_cast<std::size_t>(right.level);
  const std::size_t count = network().gradient_count();
  auto& sums = own.partial_sums;
  if (sums.size() <= level) sums.resize(level + 1);
  if (sums[level].bytes() == 0) sums[level] = own.backend->allocate(count * sizeof(float));
  float* const other = sums[level].as<float>().data();
  compute_part(device, state, step, right, scale, other);
  own.backend->add(gradients, other, count);
}

void Microbatches::flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena) {
  if (flip_ && flip_->where == where && flip_->is_due(self_, state.step)) flip_bit(backend_, arena);
}

}  // namespace distdl::train
