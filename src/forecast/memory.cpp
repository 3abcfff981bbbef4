// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/checkpoint/protection.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/forecast/memory.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::forecast {
namespace {
constexpr int kBatchesAhead = 5;  ///< data::Prefetcher: three, the one in use, and one whose memory waits

constexpr double kRun = 3 << 20;  ///< memory of a run's other threads and records, which calibration does not have

double snapshot_buffers(const checkpoint::Options& options) {
  if (options.mode == checkpoint::SaveMode::sync) return 0;
  std::optional<checkpoint::Protection> levels;
  if (checkpoint::has_levels(options)) levels = checkpoint::used_levels(options);
  return static_cast<double>(checkpoint::snapshot_buffers(levels));
}

train::StateArenas state_arenas(const train::Recipe& recipe, const RankPart& part) {
  return train::state_arenas(recipe.parallel.strategy, recipe.optim, part.share < 1);
}

double batch_bytes(const Workload& work, std::int64_t samples) {
  return static_cast<double>(samples) * static_cast<double>(work.sample_bytes + 4 * work.labels);
}
}  // namespace

NetworkFacts make_dry_network(const kernels::Options& kernels, const model::Description& model,
                              const model::ModelTensors& tensors, const NetworkUse& use) {
  using enum model::Network::Activations;
  const auto backend = kernels::make_backend(kernels);
  const tensor::DryAllocations dry;
  model::Network network(*backend, model, tensors, use.samples, use.recomputes ? recomputed : kept);
  network.prepare_backward(use.in_pieces);
  return {static_cast<double>(dry.bytes()), network.places()};
}

double DryNetworks::bytes(const model::Description& model, const model::Wiring& wiring,
                          const model::ModelTensors& tensors, const NetworkUse& use) {
  const auto& [first, end] = tensors.layers;
  auto key = fmt::format("{} {} {} {} {} {} {} {} {} {}", use.samples, use.recomputes, use.in_pieces, first == 0,
                         end == model.layers.size(), tensors.has_totals, model.context.chunks, model.context.count,
                         model.rows.slices, model.rows.count);
  for (std::size_t i = first; i < end; ++i)
    key += fmt::format(", {} {} {}", kernels::kind_of(model.layers[i].spec), tensor::to_string(wiring.layers[i].input),
                       tensor::to_string(wiring.layers[i].output));
  const auto [found, is_new] = bytes_.try_emplace(std::move(key));
  if (is_new) found->second = make_dry_network(kernels_, model, tensors, use).bytes;
  return found->second;
}

namespace {
/// Bytes that compression keeps from step to step.
double residual_bytes(const train::Recipe& recipe, const RankPart& part) {
  if (!recipe.parallel.compression.is_on()) return 0;
  const auto arena = static_cast<double>(part.layout.size() * sizeof(float));
  return arena * (1 + (parallel::codes_changes(recipe.parallel) ? part.share : 0));
}
}  // namespace

double written_bytes(const train::Recipe& recipe, const RankPart& part) {
  const auto arena = static_cast<double>(part.layout.size() * sizeof(float));
  const auto state = state_arenas(recipe, part);
  // The first rank of a node writes the node's part of all but the shards, which each rank writes itself.
  const auto shards = static_cast<double>(state.shards());
  const double whole = static_cast<double>(1 + state.averages + state.moments) - shards;
  const double written = (part.writes ? arena * whole / part.hosts : 0) + arena * shards * part.share;
  return written + residual_bytes(recipe, part);
}

MemoryParts state_memory(const train::Recipe& recipe, const Workload& work, const RankPart& part) {
  const auto arena = static_cast<double>(part.layout.size() * sizeof(float));
  const auto state = state_arenas(recipe, part);
  const auto shards = static_cast<double>(state.shards() - (state.shards_values ? 1 : 0));
  MemoryParts parts;
  parts.sums = residual_bytes(recipe, part);
  const double gathered = (1 - part.share) * static_cast<double>(part.gathered_floats * sizeof(float));
  parts.parameters = state.shards_values ? std::min(arena, arena * part.share + gathered) : arena;
  parts.moments = arena * (static_cast<double>(state.moments + state.averages) - shards * (1 - part.share));
  const auto arenas = static_cast<int>(recipe.parallel.microbatches);
  parts.gradients = static_cast<double>(parallel::arenas_for(part.range, arenas)) *
                    static_cast<double>(part.layout.size() + model::Network::kTail) * sizeof(float);
  const double waiting = (1 - part.share) * static_cast<double>(part.waiting_floats * sizeof(float));
  if (part.waiting_floats > 0) parts.gradients = std::min(parts.gradients, part.share * arena + waiting);
  parts.program += kRun;
  if (part.reads) parts.data = kBatchesAhead * batch_bytes(work, recipe.parallel.microbatch_size);
  parts.snapshots = snapshot_buffers(recipe.checkpoint) * written_bytes(recipe, part);
  return parts;
}

}  // namespace distdl::forecast
