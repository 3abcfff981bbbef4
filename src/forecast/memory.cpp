// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/data/data_set.hpp>
#include <distdl/forecast/memory.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::forecast {
namespace {
constexpr int kBatchesAhead = 5;  ///< data::Prefetcher: three, the one in use, and one whose memory waits

constexpr double kRun = 3 << 20;  ///< of a run's other threads and records, which calibration does not have

/// By checkpoint::BufferRotation.
double snapshot_buffers(const checkpoint::Options& options) {
  if (options.mode == checkpoint::SaveMode::sync) return 0;
  if (!checkpoint::has_levels(options)) return 2;
  return options.partner_every > 0 && options.parity_every > 0 ? 4 : 3;
}

double batch_bytes(const Workload& work, std::int64_t samples) {
  return static_cast<double>(samples) * static_cast<double>(work.sample_bytes + 4 * work.labels);
}
}  // namespace

NetworkFacts make_dry_network(const kernels::Options& kernels, const Workload& work, std::int64_t samples) {
  const auto backend = kernels::make_backend(kernels);
  const tensor::DryAllocations dry;
  model::Network network(*backend, work.model, work.tensors, samples);
  network.prepare_backward(false);
  return {static_cast<double>(dry.bytes()), network.places()};
}

MemoryParts state_memory(const train::Recipe& recipe, const Workload& work, const parallel::MicrobatchPlan& plan,
                         int nodes, Rank rank, bool writes) {
  const auto ranks = static_cast<int>(plan.ranges.size());
  const auto arena = static_cast<double>(work.tensors.layout.size() * sizeof(float));
  const auto state = optim::state_of(recipe.optim);
  const auto moments =
      static_cast<double>(std::ranges::count(state, optim::StateArena::Kind::moment, &optim::StateArena::kind));
  const double averages = static_cast<double>(state.size()) - moments;
  const bool sharded = recipe.parallel.strategy != parallel::Strategy::replicas && ranks > 1;
  double share = 1;
  if (sharded)
    share = static_cast<double>(optim::shards_of(recipe.optim, work.tensors.layout, ranks, {})
                                    .of.at(static_cast<std::size_t>(rank.value))
                                    .front()
                                    .count()) /
            static_cast<double>(work.tensors.layout.size());
  MemoryParts parts;
  parts.parameters = arena;
  parts.moments = arena * (moments * share + averages);
  parts.gradients = static_cast<double>(parallel::arenas_for(plan.of(rank), plan.microbatches)) *
                    static_cast<double>(work.tensors.layout.size() + model::Network::kTail) * sizeof(float);
  // Of what was freed the C library keeps up to so much: with shards, the parameters' first place.
  constexpr double kKept = 32 << 20;
  if (sharded && arena <= kKept) parts.program += arena;
  parts.program += kRun;
  parts.data = kBatchesAhead * batch_bytes(work, plan.microbatch_size);
  // The first rank of a node writes the node's part of all but the shards, which each rank writes itself.
  const double of_node = writes ? arena * (1 + averages + (sharded ? 0 : moments)) / nodes : 0;
  const double written = of_node + (sharded ? arena * moments * share : 0);
  parts.snapshots = snapshot_buffers(recipe.checkpoint) * written;
  return parts;
}

}  // namespace distdl::forecast
