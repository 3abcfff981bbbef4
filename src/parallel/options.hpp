// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>

namespace distdl::parallel {

/// Parts of the training state that each rank owns.
enum class Strategy {
  replicas,
  sharded,
  sharded_gradients,
  sharded_parameters,
  local_sgd,
  parameter_server,
  automatic
};
constexpr std::array<Named<Strategy>, 7> choices_of(Strategy) {
  return {{
      {Strategy::replicas, "replicas", "everything"},
      {Strategy::sharded, "sharded", "the optimizer's moments of a part of the model only, which it updates for all"},
      {Strategy::sharded_gradients, "sharded_gradients", "the same, and the gradients of that part only"},
      {Strategy::sharded_parameters, "sharded_parameters", "the same, and the parameters of that part only"},
      {Strategy::local_sgd, "local_sgd",
       "everything, of its groups of microbatches, each of which trains parameters of its own; these are averaged "
       "every parallel.local_steps steps: the result is another one, but does not depend on the ranks, "
       "docs/local-sgd.md"},
      {Strategy::parameter_server, "parameter_server",
       "everything but the optimizer's moments, which are at cluster.ps.tasks servers with a range of the parameters "
       "each; workers pull parameters and push gradients: docs/parameter-server.md"},
      {Strategy::automatic, "auto",
       "chosen at each start for the ranks that there are, with parallel.recompute, and with parallel.pipeline_ranks, "
       "parallel.tensor_ranks and parallel.stage_layers where these have their defaults; parallel.context_ranks stays"},
  }};
}

/// True if a rank has the moments of its shard only, where there are several ranks.
constexpr bool shards_moments(Strategy strategy) {
  return strategy == Strategy::sharded || strategy == Strategy::sharded_gradients ||
         strategy == Strategy::sharded_parameters;
}

/// True if a rank gives up the gradients of other parts of the model than its own.
constexpr bool shards_gradients(Strategy strategy) {
  return strategy == Strategy::sharded_gradients || strategy == Strategy::sharded_parameters;
}

/// With local SGD: use of the average of the groups' parameters at the end of a round.
enum class Outer {
  mean,     ///< all groups go on with it (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019)
  nesterov  ///< an outer step goes towards it (Douillard et al., "DiLoCo", 2023)
};
constexpr std::array<Named<Outer>, 2> choices_of(Outer /*which*/) {
  return {{
      {Outer::mean, "mean", "all groups go on with it"},
      {Outer::nesterov, "nesterov", "the parameters of the round before take a step towards it, with momentum: DiLoCo"},
  }};
}

namespace server {
/// When the servers apply the gradients of a step.
enum class Mode {
  synchronous,  ///< the sum of a step's gradients is applied at its end; no bit depends on who computes what
  bounded,      ///< each gradient is applied at once; stale synchronous parallel (Ho et al., NeurIPS 2013)
  asynchronous  ///< as bounded, without a bound
};
constexpr std::array<Named<Mode>, 3> choices_of(Mode /*which*/) {
  return {{
      {Mode::synchronous, "synchronous", "those of a step together: the bytes of replicas"},
      {Mode::bounded, "bounded",
       "each at once; its parameters may lack updates of the last parallel.staleness steps before its own"},
      {Mode::asynchronous, "asynchronous", "each at once, whatever its parameters lack"},
  }};
}

/// How parameters come to the workers of other ranks.
enum class Pulls { automatic, messages, one_sided };
constexpr std::array<Named<Pulls>, 3> choices_of(Pulls /*which*/) {
  return {{
      {Pulls::automatic, "auto", "one_sided where a server has 256 KiB or more of them"},
      {Pulls::messages, "messages", "servers send them"},
      {Pulls::one_sided, "one_sided", "workers read them in the memory of the servers"},
  }};
}

/// Where the servers are.
enum class Placement { colocated, own, own_nodes, by_device };
constexpr std::array<Named<Placement>, 4> choices_of(Placement /*which*/) {
  return {{
      {Placement::colocated, "colocated", "on ranks that have a worker, too, and on as many nodes as possible"},
      {Placement::own, "own", "on the last ranks, which have no worker"},
      {Placement::own_nodes, "own_nodes", "on all ranks of the fewest last nodes that have so many, without a worker"},
      {Placement::by_device, "by_device", "on ranks without a GPU, and workers on those with one; else as \"own\""},
  }};
}
}  // namespace server

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

/// Encoding in which ranks send their gradients. All but `none` change the result, with the number of ranks.
enum class Compression { none, bf16, fp16, int8, topk, onebit, powersgd, automatic };
constexpr std::array<Named<Compression>, 8> choices_of(Compression) {
  return {{
      {Compression::none, "none", "as they are"},
      {Compression::bf16, "bf16", "16 bits each"},
      {Compression::fp16, "fp16", "16 bits each, with more precision and less range"},
      {Compression::int8, "int8", "8 bits each, and a scale for each 256"},
      {Compression::topk, "topk", "the largest only, parallel.compression_fraction of them"},
      {Compression::onebit, "onebit", "the signs, and two means for each 1024"},
      {Compression::powersgd, "powersgd", "matrices as products of factors with parallel.compression_rank columns"},
      {Compression::automatic, "auto",
       "none, bf16 or int8, as the network is fast, decided again while the run goes on"},
  }};
}

/// Compression with which topk, onebit and powersgd begin.
constexpr Compression kWarmup = Compression::int8;
constexpr bool warms_up(Compression compression) {
  return compression == Compression::topk || compression == Compression::onebit || compression == Compression::powersgd;
}

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
  OneOf<Compression> compression = Compression::none;
  std::int64_t groups = 4;  ///< local_sgd: of the microbatches of a step, which each train parameters of their own
  std::int64_t local_steps = 16;  ///< local_sgd: steps of a round, at the end of which these are averaged
  OneOf<Outer> outer = Outer::mean;
  double outer_learning_rate = 0.7;  ///< with outer = nesterov: the part of the way to the average
  double outer_momentum = 0.9;       ///< with outer = nesterov
  OneOf<server::Mode> server_mode = server::Mode::synchronous;
  OneOf<server::Placement> server_placement = server::Placement::colocated;
  std::int64_t servers = 0;  ///< parameter_server: 0: one on each rank, or, if on their own, a quarter of the ranks
  std::int64_t workers = 0;  ///< parameter_server: 0: one on each rank, but for ranks of servers on their own
  std::string server_interface = {};  ///< for the roles' connections, as comm::Options::interface; empty: that one
  std::int64_t server_steps = 16;     ///< parameter_server: steps of a round, at the end of which all ranks meet
  std::int64_t staleness = 4;         ///< with server_mode = bounded: steps
  OneOf<server::Pulls> server_pulls = server::Pulls::automatic;  ///< parameter_server
  bool server_partners = false;        ///< parameter_server: a lost server costs no more than a step, or a round
  double delay_compensation = 0;       ///< with a server_mode that applies gradients at once; 0: none
  double compression_fraction = 0.01;  ///< with topk: the part of the gradients that is sent
  std::int64_t compression_rank = 4;   ///< with powersgd: columns of the factors
  std::int64_t compression_warmup_steps = 400;  ///< with topk, onebit and powersgd: int8 until then
};

/// Compression in use in a step that follows `step` others.
constexpr Compression compression_of(const Options& options, std::int64_t step) {
  const bool is_cold = warms_up(options.compression) && step < options.compression_warmup_steps;
  return is_cold ? kWarmup : Compression(options.compression);
}

/// The stages that each rank of a pipeline of so many ranks has.
int stages_per_rank(const Options& options, std::int64_t pipeline_ranks);

/// Checks the keys of pipelines, context groups, tensor groups, local SGD and the parameter server, as far as that is
/// possible without the number of ranks. Throws ConfigError.
void check(const Options& options);

/// The keys of local SGD.
template <class Visitor>
void describe_groups(Options& options, Visitor&& visit) {
  visit(
      "parallel.groups", options.groups,
      "with parallel.strategy = \"local_sgd\": groups of parallel.microbatches / parallel.groups microbatches, each of "
      "which trains parameters of its own; the result depends on this number, not on the ranks");
  visit("parallel.local_steps", options.local_steps,
        "with parallel.strategy = \"local_sgd\": the parameters of the groups are averaged after so many steps; the "
        "result depends on it");
  visit("parallel.outer", options.outer,
        OneOf<Outer>::help("with parallel.strategy = \"local_sgd\": what becomes of the average; the result depends on "
                           "it"));
  visit("parallel.outer_learning_rate", options.outer_learning_rate,
        "with parallel.outer = \"nesterov\": the factor of the outer step, above 0 and up to 2; the result depends on "
        "it");
  visit("parallel.outer_momentum", options.outer_momentum,
        "with parallel.outer = \"nesterov\": momentum of the outer step, from 0 to below 1; the result depends on it");
}

/// The keys of the parameter server.
template <class Visitor>
void describe_servers(Options& options, Visitor&& visit) {
  visit("parallel.server_mode", options.server_mode,
        OneOf<server::Mode>::help("with parallel.strategy = \"parameter_server\": when gradients are applied; the "
                                  "result depends on it, and with any but \"synchronous\" on the order in which they "
                                  "arrive"));
  visit(
      "parallel.server_steps", options.server_steps,
      "with parallel.strategy = \"parameter_server\": the ranks meet after so many steps, and earlier to evaluate, to "
      "save or to stop; with \"synchronous\" the result does not depend on it");
  visit(
      "parallel.server_partners", options.server_partners,
      "with parallel.strategy = \"parameter_server\": each range is also on a second server, on another node if there "
      "is one, and outlives the loss of one of them; costs messages and memory; the result does not depend on it");
  visit("parallel.server_pulls", options.server_pulls,
        OneOf<server::Pulls>::help("with parallel.strategy = \"parameter_server\": how parameters come from other "
                                   "ranks; with \"synchronous\" the result does not depend on it"));
  visit("parallel.staleness", options.staleness,
        "with parallel.server_mode = \"bounded\": so many steps before its own may a gradient's parameters lack; the "
        "result depends on it");
  visit("parallel.delay_compensation", options.delay_compensation,
        "with a parallel.server_mode that applies gradients at once: how far they are corrected for updates that their "
        "parameters lacked (DC-ASGD), from 0, not at all, to 10; the result depends on it");
}

/// The keys of the compression of gradients.
template <class Visitor>
void describe_compression(Options& options, Visitor&& visit) {
  visit("parallel.compression", options.compression,
        OneOf<Compression>::help(
            "in which form data-parallel replicas send their gradients, with local SGD what has "
            "changed in a group's parameters in a round, and what workers of a parameter server push and pull "
            "(docs/compression.md); what a form lacks is sent in later steps; with any but "
            "\"none\" the result depends on the number of ranks"));
  visit("parallel.compression_fraction", options.compression_fraction,
        "with parallel.compression = \"topk\": the part of the gradients that is sent, above 0 and up to 0.5; the "
        "result depends on it");
  visit("parallel.compression_rank", options.compression_rank,
        "with parallel.compression = \"powersgd\": the rank of the matrices that are sent, from 1 to 64; the result "
        "depends on it");
  visit("parallel.compression_warmup_steps", options.compression_warmup_steps,
        "with parallel.compression = \"topk\", \"onebit\" or \"powersgd\": the first so many steps of a run send "
        "\"int8\" instead; 0: none; after it topk and onebit leave AdamW's second moments as they are, "
        "with replicas and optim.clip_norm = 0 (docs/compression.md); the result depends on it");
}

/// The jobs of the parameter server and their tasks: section [cluster].
template <class Visitor>
void describe_cluster(Options& options, Visitor&& visit) {
  visit("cluster.ps.tasks", options.servers,
        "with parallel.strategy = \"parameter_server\": servers, of which a rank has one at most; 0: one on each rank, "
        "or, on their own, a quarter of the ranks or those that cluster.worker.tasks leaves; with \"synchronous\" and "
        "without parallel.compression the result does not depend on it");
  visit("cluster.ps.placement", options.server_placement,
        OneOf<server::Placement>::help("with parallel.strategy = \"parameter_server\": where the servers are; "
                                       "with \"synchronous\" and without parallel.compression the result does not "
                                       "depend on it"));
  visit(
      "cluster.worker.tasks", options.workers,
      "with parallel.strategy = \"parameter_server\": workers, of which a rank has one at most; 0: one on each rank "
      "that is not a server's own; with \"synchronous\" and without parallel.compression the result does not depend on "
      "it");
  visit("cluster.interface", options.server_interface,
        "network device for what servers and workers send each other, as comm.interface; \"\": that of "
        "comm.interface");
}

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("parallel.strategy", options.strategy,
        OneOf<Strategy>::help("what a rank holds of the training state; no bit of the result depends on it, but for "
                              "\"local_sgd\" and \"parameter_server\" with another mode than \"synchronous\""));
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
  describe_compression(options, visit);
  describe_groups(options, visit);
  describe_servers(options, visit);
  describe_cluster(options, visit);
}

}  // namespace distdl::parallel
