// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <distdl/base/one_of.hpp>

namespace distdl::parallel {

/// What of the training state each rank holds.
enum class Strategy { replicas, sharded, sharded_gradients };
constexpr std::array<Named<Strategy>, 3> choices_of(Strategy) {
  return {{
      {Strategy::replicas, "replicas", "everything"},
      {Strategy::sharded, "sharded", "the optimizer's moments of a part of the model only, which it updates for all"},
      {Strategy::sharded_gradients, "sharded_gradients", "the same, and the gradients of that part only"},
  }};
}

/// With sharded gradients, the part of the gradients that a bucket has, unless parallel.bucket_mib says how many.
constexpr double kBucketShare = 1.0 / 32;

/// What of a block of layers is computed again in the backward pass instead of being kept.
enum class Recompute { none, blocks, automatic };
constexpr std::array<Named<Recompute>, 3> choices_of(Recompute) {
  return {{
      {Recompute::none, "none", "they are kept"},
      {Recompute::blocks, "blocks", "the output of each block is kept, and the others are computed again"},
      {Recompute::automatic, "auto", "blocks on a CPU where the model would not fit otherwise, else none"},
  }};
}

struct Options {
  OneOf<Strategy> strategy = Strategy::replicas;
  OneOf<Recompute> recompute = Recompute::automatic;
  std::int64_t microbatches = 12;     ///< number per step; the global batch is microbatches * microbatch_size
  std::int64_t microbatch_size = 16;  ///< samples per microbatch
  double bucket_mib = 0;              ///< least MiB of gradients that are summed over the ranks at a time; 0: chosen
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("parallel.strategy", options.strategy,
        OneOf<Strategy>::help("what a rank holds of the training state; no bit of the result depends on it"));
  visit("parallel.recompute", options.recompute,
        OneOf<Recompute>::help("the outputs of layers until the backward pass; no bit of the result depends on it"));
  visit(
      "parallel.microbatches", options.microbatches,
      "microbatches per step, which are divided among the ranks; the result depends on this number, not on the ranks");
  visit("parallel.microbatch_size", options.microbatch_size,
        "samples per microbatch; the global batch is microbatches * microbatch_size");
  visit("parallel.bucket_mib", options.bucket_mib,
        "gradients are summed over the ranks in buckets of at least so many MiB, while the backward pass still runs; "
        "more than the model has: all at once, after it; 0: chosen by the costs of communication; no bit of the result "
        "depends on it");
}

}  // namespace distdl::parallel
