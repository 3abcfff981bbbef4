// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>
#include <distdl/parallel/compression_options.hpp>
#include <distdl/parallel/local_sgd_options.hpp>
#include <distdl/parallel/server_options.hpp>
#include <distdl/parallel/strategy.hpp>

namespace distdl::parallel {

/// With sharded gradients, the fraction of the gradients that a bucket has, unless parallel.bucket_mib is set.
constexpr double kBucketShare = 1.0 / 32;
/// The least floats of such a bucket: ranks wait for each other in the sum of each, whatever its size.
constexpr std::size_t kLeastInTurn = std::size_t{1} << 16;

/// Activations of a block of layers that the backward pass computes again instead of keeping them.
enum class Recompute { none, blocks, automatic };
constexpr std::array<Named<Recompute>, 3> choices_of(Recompute) {
  return {{
      {Recompute::none, "none", "they are kept"},
      {Recompute::blocks, "blocks", "the output of each block is kept, and the others are computed again"},
      {Recompute::automatic, "auto", "blocks on a CPU where the model would not fit otherwise, else none"},
  }};
}

namespace pipeline {
/// How the ranks of a pipeline order their work on the microbatches of a step. All end with a flush: a step is over
/// when each microbatch has passed each stage forward and backward.
enum class Algorithm {
  gpipe,        ///< all forward, then all backward (Huang et al., "GPipe", NeurIPS 2019)
  one_f_one_b,  ///< as early backward as possible (PipeDream-Flush: Narayanan et al., ICML 2021)
  interleaved,  ///< 1F1B with several stages per rank (Narayanan et al., "Megatron-LM", SC 2021)
  zero_bubble   ///< ZB-H1: gradients of weights fill the gaps (Qi et al., "Zero Bubble Pipeline Parallelism", 2023)
};

inline constexpr std::array<Named<Algorithm>, 4> kAlgorithms{{
    {Algorithm::gpipe, "gpipe", "all forward, then all backward"},
    {Algorithm::one_f_one_b, "1f1b", "one forward, one backward: fewer activations"},
    {Algorithm::interleaved, "interleaved", "1f1b with several stages per rank: a shorter bubble, more transfers"},
    {Algorithm::zero_bubble, "zero-bubble", "1f1b with gradients of weights in the gaps"},
}};
constexpr const auto& choices_of(Algorithm /*which*/) {
  return kAlgorithms;
}
}  // namespace pipeline

struct Options {
  OneOf<Strategy> strategy = Strategy::replicas;
  OneOf<Recompute> recompute = Recompute::automatic;
  std::int64_t microbatches = 12;     ///< number per step; the global batch is microbatches * microbatch_size
  std::int64_t microbatch_size = 16;  ///< samples per microbatch
  std::int64_t tensor_shards = 1;     ///< parts into which the layers of each block are divided
  std::int64_t tensor_ranks = 1;      ///< most ranks on which the shards of a layer lie
  std::int64_t context_chunks = 1;    ///< parts into which the sequences of each microbatch are divided
  std::int64_t context_ranks = 1;     ///< most ranks on which the chunks of a sequence lie
  std::int64_t pipeline_ranks = 1;    ///< ranks of a pipeline, each of which has one stage of the model
  OneOf<pipeline::Algorithm> schedule = pipeline::Algorithm::one_f_one_b;
  std::int64_t interleave = 2;                  ///< stages of each rank of a pipeline, with the schedule `interleaved`
  std::vector<std::int64_t> stage_layers = {};  ///< layers of each stage, see stages_of(); none: balanced
  double bucket_mib = 0;  ///< least MiB of gradients that are summed over the ranks at a time; 0: chosen
  CompressionOptions compression = {};
  LocalSgdOptions local_sgd = {};
  ServerOptions servers = {};
};

/// The stages that each rank of a pipeline of so many ranks has.
int stages_per_rank(const Options& options, std::int64_t pipeline_ranks);

/// Checks the keys of pipelines, context groups, tensor groups, local SGD and the parameter server, as far as that is
/// possible without the number of ranks. Throws ConfigError.
void check(const Options& options);

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("parallel.strategy", options.strategy, help_of_strategy());
  visit("parallel.recompute", options.recompute,
        OneOf<Recompute>::help("the outputs of layers until the backward pass; no bit of the result depends on it"));
  visit(
      "parallel.microbatches", options.microbatches,
      "microbatches per step, which are divided among the ranks; the result depends on this number, not on the ranks");
  visit("parallel.microbatch_size", options.microbatch_size,
        "samples per microbatch; the global batch is microbatches * microbatch_size");
  visit("parallel.tensor_shards", options.tensor_shards,
        "gpt, vit, resnet*: parts of the linear layers, convolutions and attention heads of each block, and of the "
        "vocabulary of a gpt, whose results are added in a fixed order; the result depends on this number, not on the "
        "ranks");
  visit("parallel.tensor_ranks", options.tensor_ranks,
        "ranks that share the tensor shards of each layer, and the rows of what exists once; at most "
        "parallel.tensor_shards; with "
        "parallel.pipeline_ranks, of each stage; no bit of the result depends on it");
  visit(
      "parallel.context_chunks", options.context_chunks,
      "gpt: parts of equal length of each sequence, whose gradients are added in a fixed order; the result depends on "
      "this number, not on the ranks");
  visit("parallel.context_ranks", options.context_ranks,
        "ranks that share the chunks of each sequence; at most parallel.context_chunks; with other kinds of ranks, of "
        "each stage and tensor shard; no bit of the result depends on it");
  visit(
      "parallel.pipeline_ranks", options.pipeline_ranks,
      "ranks of a pipeline: each has one stage, which is some of the layers; the ranks form as many pipelines as their "
      "number permits; no bit of the result depends on it");
  visit(
      "parallel.schedule", options.schedule,
      OneOf<pipeline::Algorithm>::help("how the ranks of a pipeline order their work; no bit of the result depends on "
                                       "it"));
  visit("parallel.interleave", options.interleave,
        "with parallel.schedule = \"interleaved\": stages of each rank of a pipeline; no bit of the result depends on "
        "it");
  visit(
      "parallel.stage_layers", options.stage_layers,
      "for each stage of a pipeline, how many of the layers it has at which a stage may begin (docs/pipeline.md), e.g. "
      "[5, 7]; []: so that the slowest stage is as short as possible; no bit of the result depends on it");
  visit("parallel.bucket_mib", options.bucket_mib,
        "gradients are summed over the ranks in buckets of at least so many MiB, while the backward pass still runs; "
        "more than the model has: all at once, after it; 0: chosen by the costs of communication; no bit of the result "
        "depends on it");
  describe(options.compression, visit);
  describe(options.local_sgd, visit);
  describe(options.servers, visit);
}

}  // namespace distdl::parallel
