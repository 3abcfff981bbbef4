// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <distdl/forecast/collective_time.hpp>
#include <distdl/forecast/product_forecast.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/shards.hpp>

namespace distdl::forecast {
namespace {
constexpr double kMebibyte = 1 << 20;

/// Simulated steps: fewer of many ranks, whose slowest is nearly the same in each.
int steps_for(int ranks) {
  return std::clamp(20000 / ranks, 3, 50);
}

/// As parallel::GradientSum divides its arenas.
std::vector<parallel::Bucket> buckets_for(const Basis& basis, CollectiveTimes& times, std::size_t count) {
  const auto& [recipe, cluster] = std::tie(basis.recipe, basis.cluster);
  auto places = basis.network.places;
  if (cluster.ranks() == 1) places.clear();
  std::size_t least = count;
  if (recipe.parallel.bucket_mib > 0)
    least = static_cast<std::size_t>(recipe.parallel.bucket_mib * kMebibyte / sizeof(float));
  else if (cluster.nodes > 1)
    least = parallel::best_bucket(count, [&](std::size_t floats) { return times.expected_by_ranks(floats); });
  return parallel::buckets_of(places, count, least);
}

void add_sums(const Basis& basis, CollectiveTimes& times, StepPlan& plan, ProductForecast& result) {
  std::size_t largest = 0;
  for (const auto& bucket : plan.buckets) {
    const auto& time = times.all_reduce(bucket.count());
    plan.sum_seconds.push_back(time.seconds);
    result.sent_bytes += time.sent_bytes;
    result.memory.sums = std::max(result.memory.sums, time.scratch_bytes);  // one memory for all, in turn
    if (bucket.count() > largest) result.algorithm = time.algorithm;
    largest = std::max(largest, bucket.count());
    if (!basis.has_spare_processor && basis.cluster.nodes > 1)
      plan.stolen_seconds.push_back((basis.machine.calibration ? basis.machine.calibration->busy_per_byte : 0) *
                                    static_cast<double>(bucket.count() * sizeof(float)));
  }
}

void add_gather(const Basis& basis, const CollectiveTimes& times, StepPlan& plan, ProductForecast& result) {
  const auto counts =
      optim::shards_of(basis.recipe.optim, basis.work.tensors.layout, basis.cluster.ranks(), {}).counts(0);
  const auto time = times.all_gather(counts);
  plan.updated_share =
      static_cast<double>(*std::ranges::max_element(counts)) / static_cast<double>(basis.work.tensors.layout.size());
  plan.gather_seconds = time.seconds;
  result.sent_bytes += time.sent_bytes;
  result.memory.sums = std::max(result.memory.sums, time.scratch_bytes);
}

parallel::MicrobatchPlan plan_for(const Basis& basis) {
  const int ranks = basis.cluster.ranks(), per_node = basis.cluster.ranks_per_node;
  const auto microbatches = basis.recipe.parallel.microbatches;
  require(microbatches >= ranks,
          "{} nodes of {} rank{} are {} ranks, but a step has {} microbatches, and each rank needs one; the nearest "
          "choice is --nodes {}{}, or parallel.microbatches = {} with a smaller parallel.microbatch_size",
          basis.cluster.nodes, per_node, per_node == 1 ? "" : "s", ranks, microbatches,
          std::max<std::int64_t>(1, microbatches / per_node),
          microbatches < per_node ? fmt::format(" --ranks-per-node {}", microbatches) : "", ranks);
  return parallel::make_plan(basis.recipe.parallel, ranks);
}

double seconds_alone(const RankWork& work, std::int64_t microbatches) {
  const auto count = static_cast<double>(microbatches);
  return count * (work.forward + work.backward) + (count - 1) * work.add + work.update + work.load + work.rest;
}

void add_memory(const Basis& basis, const train::Recipe& recipe, const parallel::MicrobatchPlan& plan,
                ProductForecast& result) {
  auto first = state_memory(recipe, basis.work, plan, basis.cluster.nodes, Rank(0), true);
  first.network = basis.network.bytes + basis.evaluator_bytes;
  first.program += basis.measured.program_bytes;
  first.sums = result.memory.sums;
  result.memory = first;
  result.node_bytes = first.total();
  for (int rank = 1; rank < basis.cluster.ranks_per_node; ++rank) {
    auto other = state_memory(recipe, basis.work, plan, basis.cluster.nodes, Rank(rank), false);
    std::tie(other.network, other.program, other.sums) = std::tie(first.network, first.program, first.sums);
    result.node_bytes += other.total();
  }
  result.fits = result.node_bytes <= node_memory(basis.machine);
}
}  // namespace

ProductForecast forecast_product(const Basis& basis, const Product& product) {
  const auto recipe = with_product(basis.recipe, product);
  const auto plan = plan_for(basis);
  const int ranks = basis.cluster.ranks();
  const std::size_t count = basis.work.tensors.layout.size() + model::Network::kTail;
  CollectiveTimes times(basis.cluster, plan);
  ProductForecast result{product};
  RankWork work = basis.measured.work;
  if (!basis.has_spare_processor) work.forward += basis.measured.read;
  StepPlan step;
  for (const auto& range : plan.ranges) step.microbatches.push_back(range.count);
  step.buckets = buckets_for(basis, times, count);
  step.floats = count;
  step.in_parts = step.buckets.size() > 1 && recipe.optim.clip_norm <= 0 &&
                  kernels::activation_type(recipe.kernels) != tensor::DataType::float16;
  if (ranks == 1)
    step.sum_seconds.assign(step.buckets.size(), 0);
  else
    add_sums(basis, times, step, result);
  if (product.shards_moments && ranks > 1) add_gather(basis, times, step, result);
  result.buckets = step.buckets.size();
  result.step = simulate_steps(work, step, steps_for(ranks), basis.machine.seed);
  result.efficiency = seconds_alone(work, plan.microbatches) / ranks / result.step.seconds;
  result.sent_bytes *= basis.cluster.ranks_per_node;
  add_memory(basis, recipe, plan, result);
  return result;
}

}  // namespace distdl::forecast
