// SPDX-License-Identifier: Apache-2.0
// Runs on a device whose memory the host cannot touch: ranks that share layers, sequences or stages leave the bytes of
// one rank on the processor.
#include <gmock/gmock.h>

#include "tests/kernels/far_backend.hpp"
#include "tests/train/run_fixture.hpp"
#include <distdl/kernels/options.hpp>
#include <distdl/kernels/registry/registry.hpp>
#include <distdl/model/models.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/parallel/buckets.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::kernels {
// In this program the backend "cuda" is this one, and not that of the plug-in.
bool cuda_is_built() {
  return true;
}
std::unique_ptr<Backend> make_cuda_backend(const Options& options) {
  if (options.backend == "auto") throw BackendUnavailable("it is for those who ask for it");
  return test::make_far_backend(make_reference_backend(options));
}
}  // namespace distdl::kernels

namespace distdl::train {
namespace {
class OnDevices : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.model.context = 8;
    recipe_.model.layers = 2;
    recipe_.data.holdout = 21;
    recipe_.parallel = {.microbatches = 4, .microbatch_size = 2, .tensor_shards = 2};
    recipe_.train.steps = 3;
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .clip_norm = 0.5};
  }
  /// Blocks of several pages: what is not committed ends the program where it is used.
  void take_pages() {
    recipe_.model.width = 32;
    recipe_.parallel.bucket_mib = 1.0 / 64;
  }
  struct Product {
    int ranks = 1, tensor = 1, context = 1, pipeline = 1;
    const char* strategy = "replicas";
    const char* recompute = "none";
  };
  void choose(const Product& product) {
    auto& options = recipe_.parallel;
    options.tensor_ranks = product.tensor;
    options.context_ranks = product.context;
    options.pipeline_ranks = product.pipeline;
    options.strategy = product.strategy;
    options.recompute = product.recompute;
    recipe_.train.audit_every = options.strategy == parallel::Strategy::replicas ? 2 : 0;
  }
  void expect_bytes_of_one_rank_on_the_processor(const std::vector<Product>& products) {
    const auto name =
        fmt::format("{}_{}_chunks{}_", recipe_.optim.name, recipe_.train.steps, recipe_.parallel.context_chunks);
    recipe_.kernels.backend = "reference";
    choose({});
    recipe_.train.audit_every = 0;
    const auto expected = digest_of(1, name);
    recipe_.kernels.backend = "cuda";
    for (const auto& product : products) {
      choose(product);
      const auto of = fmt::format("{}_{}_{}_{}_{}_{}", product.ranks, product.tensor, product.context, product.pipeline,
                                  product.strategy, product.recompute);
      EXPECT_EQ(digest_of(product.ranks, name + of), expected) << of;
    }
  }
};

TEST_F(OnDevices, RanksThatHoldAModelTogetherGiveTheBytesOfOneRankOnTheProcessor) {
  expect_bytes_of_one_rank_on_the_processor(
      {{.ranks = 1}, {.ranks = 2, .tensor = 2}, {.ranks = 4, .pipeline = 2}, {.ranks = 2, .strategy = "sharded"}});
  recipe_.parallel.context_chunks = 4;
  expect_bytes_of_one_rank_on_the_processor(
      {{.ranks = 1},
       {.ranks = 3, .context = 3},
       {.ranks = 8, .tensor = 2, .context = 2, .strategy = "sharded"},
       {.ranks = 8, .tensor = 2, .context = 2, .pipeline = 2, .recompute = "blocks"}});
}

TEST_F(OnDevices, WorkersOfServersInHostMemoryGiveTheBytesOfOneRankOnTheProcessor) {
  recipe_.optim.clip_norm = 0;
  recipe_.optim.ema_decay = 0.9;
  recipe_.parallel.servers.steps = 2;
  expect_bytes_of_one_rank_on_the_processor(
      {{.ranks = 1, .strategy = "parameter_server"}, {.ranks = 3, .strategy = "parameter_server"}});
  recipe_.parallel.servers.partners = true;  // each range is saved from two places
  expect_bytes_of_one_rank_on_the_processor({{.ranks = 2, .strategy = "parameter_server"}});
}

TEST_F(OnDevices, RanksWithoutADeviceServeThoseWithOne) {
  recipe_.optim.clip_norm = 0;
  recipe_.parallel.strategy = "parameter_server";
  recipe_.parallel.servers.placement = "by_device";
  recipe_.train.evaluate_every_steps = 1;
  recipe_.kernels.backend = "reference";
  const auto expected = digest_of(1, "processor");
  const auto losses = [this] {
    std::vector<double> all;
    for (const auto& each : recorder_.evaluated) all.push_back(*each.loss);
    return all;
  };
  const auto expected_losses = losses();
  recorder_ = {};
  decide_ = [this](const comm::Communicator& communicator) {
    Recipe recipe = recipe_;
    recipe.kernels.backend = communicator.rank() == Rank(1) ? "reference" : "cuda";
    return recipe;
  };
  EXPECT_EQ(digest_of(3, "devices"), expected);
  EXPECT_EQ(losses(), expected_losses);
  ASSERT_EQ(recorder_.products.size(), 1u);
  EXPECT_EQ(recorder_.products[0].reason, "2 workers on ranks 0 2 with a GPU, 1 server on rank 1 without one");
  EXPECT_TRUE(recorder_.started.at(0).has_mixed_backends) << "a start without these servers may be of one kind";
  decide_ = [this](const comm::Communicator& communicator) {  // the scheduler's rank serves
    Recipe recipe = recipe_;
    recipe.kernels.backend = communicator.rank() == Rank(0) ? "reference" : "cuda";
    return recipe;
  };
  for (const char* mode : {"synchronous", "bounded", "asynchronous"}) {
    recipe_.parallel.servers.mode = mode;
    const auto found = digest_of(3, mode);
    EXPECT_EQ(found == expected, std::string(mode) == "synchronous") << mode;
  }
}

TEST_F(OnDevices, WhatServersAndGroupsSendIsCompressed) {
  recipe_.optim.clip_norm = 0;
  recipe_.kernels.backend = "cuda";
  recipe_.parallel.compression.encoding = "int8";
  recipe_.parallel.strategy = "parameter_server";
  recipe_.parallel.servers.mode = parallel::server::Mode::asynchronous;
  EXPECT_EQ(run(2, "servers"), Outcome::finished);
  recipe_.parallel.strategy = "local_sgd";
  recipe_.parallel.local_sgd.groups = 2;
  recipe_.parallel.local_sgd.steps = 2;
  EXPECT_EQ(run(2, "groups"), Outcome::finished);
}

TEST_F(OnDevices, GroupsOfLocalSgdGiveTheBytesOfTheProcessorAlsoAfterRestarts) {
  recipe_.parallel.strategy = "local_sgd";
  recipe_.parallel.local_sgd.groups = 2;
  recipe_.parallel.local_sgd.steps = 2;
  recipe_.parallel.local_sgd.outer = parallel::Outer::nesterov;
  recipe_.train.steps = 5;
  recipe_.kernels.backend = "reference";
  const auto expected = digest_of(1, "processor");
  recipe_.kernels.backend = "cuda";
  EXPECT_EQ(run(2, "cut", 1), Outcome::stopped);
  recipe_.kernels.backend = "reference";
  EXPECT_EQ(run(2, "cut", 1), Outcome::stopped);
  recipe_.kernels.backend = "cuda";
  EXPECT_EQ(run(1, "cut"), Outcome::finished);
  EXPECT_EQ(digest("cut"), expected);
}

TEST_F(OnDevices, ARankWithItsPartOfTheParametersGivesTheBytesOfOneRankOnTheProcessor) {
  take_pages();
  recipe_.train.steps = 2;
  recipe_.optim.ema_decay = 0.9;
  expect_bytes_of_one_rank_on_the_processor({{.ranks = 3, .strategy = "sharded_parameters"},
                                             {.ranks = 4, .tensor = 2, .strategy = "sharded_parameters"},
                                             {.ranks = 4, .pipeline = 2, .strategy = "sharded_parameters"}});
  recipe_.optim.clip_norm = 0;  // each rank gets its slices of the sums only
  recipe_.train.steps = 1;
  expect_bytes_of_one_rank_on_the_processor({{.ranks = 4, .strategy = "sharded_parameters", .recompute = "blocks"}});
}

TEST_F(OnDevices, TrustRatiosOfTensorsOnSeveralRanksAreThoseOfOneRankOnTheProcessor) {
  for (const char* name : {"lamb", "lars"}) {
    recipe_.optim = {.name = name, .learning_rate = 0.01, .weight_decay = 0.01};
    expect_bytes_of_one_rank_on_the_processor({{.ranks = 2, .tensor = 2},
                                               {.ranks = 2, .strategy = "sharded_gradients"},
                                               {.ranks = 4, .tensor = 2, .strategy = "sharded_parameters"}});
  }
}

TEST_F(OnDevices, PartsOfTheParametersAreSavedAndRestored) {
  take_pages();
  recipe_.optim.ema_decay = 0.9;
  recipe_.kernels.backend = "reference";
  const auto expected = digest_of(1, "whole");
  const auto go_on = [&](const char* backend, const char* strategy, int ranks, int stop_at) {
    recipe_.kernels.backend = backend;
    recipe_.parallel.strategy = strategy;
    EXPECT_EQ(run(ranks, "moved", stop_at), stop_at < 0 ? Outcome::finished : Outcome::stopped) << strategy;
  };
  go_on("cuda", "sharded_parameters", 3, 0);
  go_on("reference", "replicas", 1, 0);
  go_on("cuda", "sharded_parameters", 2, -1);
  EXPECT_EQ(digest("moved"), expected);
}

/// What one rank of several has committed while a model of equal layers computes.
void measure(world::World& world, const model::Description& model, std::size_t block) {
  comm::Options options;
  options.timeout_seconds = paced(20);
  auto communicator = comm::Communicator::connect(world, options);
  const auto backend = kernels::test::make_far_backend(kernels::make_reference_backend({}));
  communicator->use(backend->accelerator());
  const int ranks = world.size();
  const auto tensors = model::tensors_of(model);
  model::Network network(*backend, model, tensors, 1);
  std::vector<optim::Elements> parts;
  const auto places = parallel::begins_of_tensors(tensors.layout);
  for (const auto& bucket : parallel::buckets_of(places, tensors.layout.size(), block / sizeof(float)))
    parts.push_back({bucket.first, bucket.end});
  const auto shards = optim::shards_of(optim::Borders::of_rows, tensors.layout, ranks, parts);
  std::vector<std::vector<std::size_t>> counts;
  for (std::size_t part = 0; part < parts.size(); ++part) counts.push_back(shards.counts(part));
  parallel::GradientSum sum(*backend, *communicator, parallel::make_plan({.microbatches = ranks}, ranks),
                            network.gradient_count());
  model::Network* const networks[] = {&network};
  ParameterBlocks blocks(*backend, *communicator, shards, counts, networks, sum, ParameterBlocks::Thread::of_caller);
  blocks.set_microbatches(1, 1);
  TrainingState state;
  allocate(state, *backend, tensors.layout, {}, shards.of[static_cast<std::size_t>(world.rank().value)], true);
  const auto arena = state.parameters.as<float>();
  const auto committed = [&] { return static_cast<double>(kernels::test::committed_bytes(*backend)); };
  double peak = committed();
  const double before = peak, whole = static_cast<double>(arena.size_bytes());
  blocks.begin_evaluation(arena);
  network.set_before_reads([&](bool backward, std::size_t layer) {
    blocks.before_reads(0, backward, layer);
    peak = std::max(peak, committed());
  });
  network.load_parameters(arena.data());
  const std::vector<float> sample(static_cast<std::size_t>(tensor::element_count(model.sample)), 0.5F);
  const std::int32_t label = 1;
  network.set_batch(sample.data(), &label);
  network.evaluate();
  blocks.end_evaluation();
  constexpr double kPages = 4 * 4096;  // at the borders of a slice, and of a part
  const auto borders = kPages * static_cast<double>(parts.size());
  EXPECT_LE(before, whole / ranks + borders);
  EXPECT_LE(peak, whole / ranks + static_cast<double>(block) + 2 * borders);
  EXPECT_GE(peak, before + static_cast<double>(block) * (1 - 1.0 / ranks) - borders);
  EXPECT_LE(committed(), before + borders) << "after the pass";
  communicator->close();
}

TEST(BlocksOnADevice, TakeMemoryOneAtATime) {
  constexpr std::int64_t kWidth = 256;
  const model::Options options{.name = "mlp", .hidden = std::vector<std::int64_t>(8, kWidth)};
  const auto model = model::describe_model(options, {1, 16, 16}, 4);
  world::run_threads(4,
                     [&](world::World& world) { measure(world, model, (kWidth * kWidth + kWidth) * sizeof(float)); });
}
}  // namespace
}  // namespace distdl::train
