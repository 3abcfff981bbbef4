// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <distdl/base/one_of.hpp>

namespace distdl::parallel {

/// What of the training state each rank holds.
enum class Strategy { replicas, sharded };
constexpr std::array<Named<Strategy>, 2> choices_of(Strategy) {
  return {{
      {Strategy::replicas, "replicas", "everything"},
      {Strategy::sharded, "sharded", "the optimizer's moments of a part of the model only, which it updates for all"},
  }};
}

struct Options {
  OneOf<Strategy> strategy = Strategy::replicas;
  std::int64_t microbatches = 12;     ///< number per step; the global batch is microbatches * microbatch_size
  std::int64_t microbatch_size = 16;  ///< samples per microbatch
  double bucket_mib = 0;              ///< least MiB of gradients that are summed over the ranks at a time; 0: chosen
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("parallel.strategy", options.strategy,
        OneOf<Strategy>::help("what a rank holds of the training state; no bit of the result depends on it"));
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
