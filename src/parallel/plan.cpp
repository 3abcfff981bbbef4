// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include <distdl/base/checked.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/groups.hpp>
#include <distdl/parallel/plan.hpp>

namespace distdl::parallel {
namespace {
constexpr std::int64_t kMostTensorShards = 1 << 10, kMostInterleave = 1 << 10;
constexpr std::int64_t kMostContextChunks = 1 << 10;

void check_context(const Options& options) {
  require(options.context_chunks >= 1 && options.context_chunks <= kMostContextChunks,
          "parallel.context_chunks is {}, but must be between 1 and {}", options.context_chunks, kMostContextChunks);
  require(options.context_ranks >= 1 && options.context_ranks <= options.context_chunks,
          "parallel.context_ranks is {}, but must be between 1 and parallel.context_chunks = {}", options.context_ranks,
          options.context_chunks);
}
}  // namespace

/// The units after the first ones go one by one to the one that would finish first, of several to the first of them.
std::vector<int> proportional_shares(int units, const std::vector<double>& speeds) {
  std::vector<int> share(speeds.size(), 1);
  using Turn = std::pair<double, std::size_t>;  // when it would have done one more
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::size_t i = 0; i < speeds.size(); ++i) turns.emplace(2 / speeds[i], i);
  for (int left = units - static_cast<int>(speeds.size()); left > 0; --left) {
    const std::size_t best = turns.top().second;
    turns.pop();
    ++share[best];
    turns.emplace((share[best] + 1) / speeds[best], best);
  }
  return share;
}

int stages_per_rank(const Options& options, std::int64_t pipeline_ranks) {
  const bool several = pipeline_ranks > 1 && options.schedule == pipeline::Algorithm::interleaved;
  return several ? static_cast<int>(options.interleave) : 1;
}

std::size_t least_in_turn(const Options& options, std::size_t floats) {
  if (options.bucket_mib > 0)
    return static_cast<std::size_t>(std::min(options.bucket_mib * (1 << 20) / sizeof(float), 1e18));
  return std::max(kLeastInTurn, static_cast<std::size_t>(static_cast<double>(floats) * kBucketShare));
}

bool chooses_degrees(const Options& options) {
  return options.strategy == Strategy::automatic && options.pipeline_ranks == 1 && options.tensor_ranks == 1 &&
         options.stage_layers.empty();
}

void check(const Options& options) {
  check_context(options);
  check_groups(options);
  check_servers(options);
  require(options.pipeline_ranks >= 1, "parallel.pipeline_ranks is {}, but must be at least 1", options.pipeline_ranks);
  require(options.interleave >= 1 && options.interleave <= kMostInterleave,
          "parallel.interleave is {}, but must be between 1 and {}", options.interleave, kMostInterleave);
  if (options.recompute != Recompute::blocks) return;
  require(options.pipeline_ranks == 1 || options.schedule != pipeline::Algorithm::zero_bubble,
          "parallel.schedule = \"zero-bubble\" needs activations twice in the backward pass, but parallel.recompute = "
          "\"blocks\" has them once: use \"1f1b\", or parallel.recompute = \"none\"");
  require(options.tensor_shards % std::max<std::int64_t>(1, options.tensor_ranks) == 0,
          "parallel.recompute = \"blocks\" repeats the sums over tensor shards, for which each rank needs as many of "
          "them, but parallel.tensor_ranks = {} does not divide parallel.tensor_shards = {}; the nearest number that "
          "does is {}",
          options.tensor_ranks, options.tensor_shards,
          model::nearest_divisor(options.tensor_shards, options.tensor_ranks));
}

MicrobatchPlan make_plan(const Options& options, const std::vector<double>& speeds) {
  require(options.microbatch_size >= 1, "parallel.microbatch_size is {}, but must be at least 1",
          options.microbatch_size);
  require(options.microbatches >= 1 && options.microbatches <= kMostMicrobatches,
          "parallel.microbatches is {}, but must be between 1 and {}", options.microbatches, kMostMicrobatches);
  require(options.tensor_shards >= 1 && options.tensor_shards <= kMostTensorShards,
          "parallel.tensor_shards is {}, but must be between 1 and {}", options.tensor_shards, kMostTensorShards);
  require(options.tensor_ranks >= 1 && options.tensor_ranks <= options.tensor_shards,
          "parallel.tensor_ranks is {}, but must be between 1 and parallel.tensor_shards = {}", options.tensor_ranks,
          options.tensor_shards);
  require(options.bucket_mib >= 0 && std::isfinite(options.bucket_mib),
          "parallel.bucket_mib is {}, but must be a finite number of at least 0", options.bucket_mib);
  checked_product(options.microbatches, options.microbatch_size,
                  "the global batch, parallel.microbatches times parallel.microbatch_size,");
  require(options.microbatches >= static_cast<std::int64_t>(speeds.size()),
          "there are {} ranks, but only {} microbatches (parallel.microbatches): start at most {}, or raise it (which "
          "changes the result of the run)",
          speeds.size(), options.microbatches, options.microbatches);
  check_roles(options, speeds.size());
  for (double speed : speeds) require(speed > 0, "the speed of a rank is {}, but must be above 0", speed);

  MicrobatchPlan plan{static_cast<int>(options.microbatches), options.microbatch_size, {}};
  int first = 0;
  for (int count : proportional_shares(plan.microbatches, speeds)) {
    plan.ranges.push_back({first, count});
    first += count;
  }
  return plan;
}

std::vector<comm::LeafRange> divided(comm::LeafRange range, std::size_t parts) {
  const auto count = static_cast<int>(parts);
  std::vector<comm::LeafRange> all;
  for (int part = 0, first = range.first; part < count; ++part) {
    const int own = range.count / count + (part < range.count % count ? 1 : 0);
    all.push_back({first, own});
    first += own;
  }
  return all;
}

MicrobatchPlan make_plan(const Options& options, int world_size) {
  return make_plan(options, std::vector<double>(static_cast<std::size_t>(world_size), 1.0));
}

}  // namespace distdl::parallel
