// SPDX-License-Identifier: Apache-2.0
// Ranks that hold a part of the parameters only, and gather the others block by block: no byte of a run depends on it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/tensor/page.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>

namespace distdl::train {
namespace {
using ::testing::HasSubstr;

class ShardedParameters : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 12;
    recipe_.parallel.microbatches = 4;
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01};
  }
  std::string digest_of(int ranks, const char* strategy = "sharded_parameters") {
    const auto name = fmt::format("parameters{}", ++runs_);
    recipe_.parallel.strategy = strategy;
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    loss_ = *recorder_.evaluated.back().loss;
    return digest(name);
  }
  void expect_same_bytes(std::initializer_list<int> numbers_of_ranks, const std::string& what) {
    recipe_.data.holdout = 11;  // samples of an evaluation, whose last group is smaller
    const auto expected = digest_of(1, "replicas");
    const double loss = loss_;
    bool is_apart = ++calls_ % 2 == 0;
    for (const int ranks : numbers_of_ranks) {
      put_apart(is_apart = !is_apart);
      EXPECT_EQ(digest_of(ranks), expected) << what << ", " << ranks << (is_apart ? " apart" : " on one node");
      EXPECT_EQ(loss_, loss) << what << ", " << ranks;
    }
  }
  /// Ranks that share no memory gather parameters, as those of several nodes; others have one arena.
  void put_apart(bool is_apart) { shared_memory_ranks_ = is_apart ? 1 : 0; }
  int runs_ = 0, calls_ = 0;
  double loss_ = 0;  ///< of the last evaluation
};

/// With 4 microbatches 3 ranks have one or two each.
TEST_F(ShardedParameters, GiveTheSameBytes) {
  recipe_.model.hidden = {16, 24, 16};
  recipe_.train.steps = 5;
  for (const std::string name : {"sgd", "adamw", "lamb", "lars"})
    for (const bool clips : {false, true}) {
      if (clips == (name == "lars")) continue;
      recipe_.optim = {.name = name, .learning_rate = 0.01, .weight_decay = 0.01, .clip_norm = clips ? 0.1 : 0.0};
      recipe_.optim.ema_decay = name == "sgd" ? 0 : 0.9;
      expect_same_bytes({1, 2, 3, 4}, fmt::format("{}, {}", name, clips));
    }
}

TEST_F(ShardedParameters, GiveTheSameBytesForALayerThatIsUsedTwice) {
  use_text();
  recipe_.model.layers = 3;
  recipe_.train.steps = 2;
  recipe_.parallel.microbatches = 8;
  for (const char* recompute : {"none", "blocks"})
    for (const bool tied : {true, false}) {
      recipe_.parallel.recompute = recompute;
      recipe_.model.tied_head = tied;
      expect_same_bytes({2, 8}, fmt::format("{}, {}", recompute, tied ? "tied" : "not tied"));
    }
}

/// Layers that keep weights in a layout of their own, and statistics.
TEST_F(ShardedParameters, GiveTheSameBytesOfConvolutions) {
  recipe_.parallel.microbatch_size = 2;
  recipe_.train.steps = 3;
  recipe_.optim.ema_decay = 0.9;
  recipe_.model = {.name = "lenet", .hidden = {12}, .batch_norm = true};
  recipe_.parallel.microbatches = 8;
  for (const char* recompute : {"none", "blocks"}) {
    recipe_.parallel.recompute = recompute;
    expect_same_bytes({4, 8}, recompute);
  }
}

TEST_F(ShardedParameters, GiveTheSameBytesIn16Bits) {
  recipe_.optim.clip_norm = 0.1;
  for (const char* precision : {"bf16", "fp16"}) {
    recipe_.kernels.precision = precision;
    expect_same_bytes({4}, precision);
  }
}

/// The ranks agree on a save while no other thread communicates.
TEST_F(ShardedParameters, AreSavedWhileTheyAreGathered) {
  recipe_.checkpoint.mode = "lazy";
  recipe_.checkpoint.every = 2;
  expect_same_bytes({2, 4}, "lazy");
}

TEST_F(ShardedParameters, MoveToOtherRanksAndStrategies) {
  recipe_.optim.ema_decay = 0.9;
  recipe_.train.steps = 16;
  const auto expected = digest_of(1, "replicas");
  const auto go_on = [&](const char* strategy, int ranks, Outcome end) {
    recipe_.parallel.strategy = strategy;
    put_apart(ranks == 4);
    EXPECT_EQ(end == Outcome::stopped ? run(ranks, "moved", 2) : run(ranks, "moved"), end) << strategy;
  };
  go_on("sharded_parameters", 3, Outcome::stopped);
  go_on("replicas", 2, Outcome::stopped);
  go_on("sharded_parameters", 2, Outcome::stopped);
  go_on("sharded", 4, Outcome::stopped);
  go_on("sharded_parameters", 4, Outcome::finished);
  EXPECT_EQ(digest("moved"), expected);
}

TEST_F(ShardedParameters, AreInSnapshots) {
  const auto expected = digest_of(1, "replicas");
  recipe_.checkpoint = {.every = 0, .memory_every = 4};
  recipe_.parallel.strategy = "sharded_parameters";
  crash_at_ = 8;
  EXPECT_THROW(run(3, "snapshots"), std::runtime_error);
  crash_at_ = -1;
  EXPECT_EQ(run(2, "snapshots"), Outcome::finished);
  EXPECT_EQ(recorder_.started.back().resumed_from, Step(8));
  EXPECT_EQ(digest("snapshots"), expected);
}

TEST_F(ShardedParameters, MicrobatchesMove) {
  put_apart(true);
  recipe_.parallel.microbatches = 12;
  recipe_.train.steps = 60;
  const auto expected = digest_of(1, "replicas");
  rank_times_ = [](Rank rank, Step step, const parallel::MicrobatchPlan& plan) {
    const bool slow = step < Step(30) && rank == Rank(1);
    return RankTimes{slow ? 3.0 : 1.0, plan.of(rank).count * (slow ? 3.0 : 1.0)};
  };
  EXPECT_EQ(digest_of(3), expected);
  EXPECT_FALSE(recorder_.shares.empty());
}

TEST_F(ShardedParameters, AreRefusedWhereTheyAreAudited) {
  recipe_.parallel.strategy = "sharded_parameters";
  recipe_.train.audit_every = 3;
  EXPECT_THAT(error_of(2, "audited"), HasSubstr("with parallel.strategy = \"sharded_parameters\" a rank alone"));
  EXPECT_EQ(code_, ExitCode::config);
}

std::size_t resident_bytes(std::span<const float> memory) {
  const std::size_t page_bytes = tensor::page_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page_bytes * page_bytes;
  std::vector<unsigned char> pages((memory.size_bytes() + page_bytes - 1) / page_bytes + 1);
  const std::size_t bytes = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size_bytes() - begin;
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), bytes, pages.data()), 0);
  return page_bytes * static_cast<std::size_t>(std::ranges::count_if(pages, [](auto page) { return (page & 1) != 0; }));
}

/// What one rank holds of parameters, and of gradients, in a step of a model of many equal layers.
void measure(world::World& world, const model::Description& model, std::size_t block, ParameterBlocks::Thread thread) {
  comm::Options options;
  options.timeout_seconds = paced(20);
  auto communicator = comm::Communicator::connect(world, options);
  const int ranks = world.size();
  const auto backend = kernels::make_backend({});
  const auto tensors = model::tensors_of(model);
  model::Network network(*backend, model, tensors, 1);
  parallel::Options parallel;
  parallel.microbatches = ranks;
  const auto plan = parallel::make_plan(parallel, ranks);
  const double mib = static_cast<double>(network.gradient_count() * sizeof(float)) / (1 << 20) * parallel::kBucketShare;
  parallel::GradientSum sum(*backend, *communicator, plan, network.gradient_count(),
                            {.places = network.places(),
                             .bucket_mib = mib,
                             .in_callers_thread = thread == ParameterBlocks::Thread::of_caller});
  std::vector<optim::Elements> parts;
  for (const auto& bucket : sum.buckets()) parts.push_back({bucket.first, std::min(bucket.end, tensors.layout.size())});
  const auto shards = optim::shards_of({.name = "adamw"}, tensors.layout, ranks, parts);
  std::vector<std::vector<std::size_t>> counts;
  for (std::size_t part = 0; part < parts.size(); ++part) counts.push_back(shards.counts(part));
  model::Network* const networks[] = {&network};
  ParameterBlocks blocks(*backend, *communicator, shards, counts, networks, sum, thread);
  blocks.set_microbatches(1, 1);
  sum.allocate({.counts = counts, .discards = true, .followers = blocks.followers()});
  const auto memory = tensor::reserve_host(tensors.layout.size() * sizeof(float));
  const auto arena = memory.as<float>();
  const auto& own = shards.of[static_cast<std::size_t>(world.rank().value)];
  for (const auto& slice : own) std::ranges::fill(arena.subspan(slice.first, slice.count()), 0.01f);
  const std::span<const float> gradients(sum.result(), network.gradient_count());
  std::size_t parameters_peak = resident_bytes(arena), gradients_peak = 0;
  blocks.set_arena(arena);
  network.set_before_reads([&](bool backward, std::size_t layer) {
    blocks.before_reads(0, backward, layer);
    parameters_peak = std::max(parameters_peak, resident_bytes(arena));
    gradients_peak = std::max(gradients_peak, resident_bytes(gradients));
  });
  network.load_parameters(arena.data());
  const std::vector<float> sample(static_cast<std::size_t>(tensor::element_count(model.sample)), 0.5f);
  const std::int32_t label = 1;
  for (int step = 0; step < 2; ++step) {
    network.set_batch(sample.data(), &label);
    blocks.begin_step();
    blocks.join_others();
    network.forward_backward(sum.microbatch_arena(), 1, [&](std::size_t place) {
      sum.set_final(place);
      while (sum.has_sum()) sum.next_sum();
    });
    blocks.end_microbatch();
    sum.add();
    sum.finish();
    sum.end_step();
  }
  const double shard = static_cast<double>(memory.bytes()) / ranks, others = 1 - 1.0 / ranks;
  const double one = static_cast<double>(block) * others;
  const int most = thread == ParameterBlocks::Thread::of_sums ? 2 : 1;
  EXPECT_LE(static_cast<double>(parameters_peak), 1.05 * (shard + most * one)) << ranks;
  EXPECT_GE(static_cast<double>(parameters_peak), 0.95 * (shard + one)) << ranks;
  EXPECT_NEAR(static_cast<double>(resident_bytes(arena)), shard, 0.05 * shard) << ranks << " ranks, between steps";
  EXPECT_LE(static_cast<double>(gradients_peak), 1.05 * (shard + 3 * one)) << ranks;
  communicator->close();
}

/// In the caller's thread, one at a time.
TEST(ParameterBlocks, AreTwoAtATime) {
  constexpr std::int64_t kWidth = 512;  // so that the pages at the borders of slices count little
  model::Options options{.name = "mlp", .hidden = std::vector<std::int64_t>(24, kWidth)};
  const auto model = model::describe_model(options, {1, 16, 16}, 4);
  constexpr std::size_t kBlock = (kWidth * kWidth + kWidth) * sizeof(float);
  using enum ParameterBlocks::Thread;
  for (const auto& each : {std::pair(2, of_sums), {4, of_sums}, {4, of_caller}})
    world::run_threads(each.first, [&](world::World& world) { measure(world, model, kBlock, each.second); });
}

TEST(ParameterBlocks, LetAModelFitThatWouldNotOtherwise) {
  const auto model = model::describe_model({.name = "mlp", .hidden = std::vector<std::int64_t>(24, 256)}, {1, 8, 8}, 4);
  const std::size_t arena = model::tensors_of(model).layout.size() * sizeof(float);
  parallel::Options parallel;
  parallel.microbatches = 4;
  const auto fits = [&](const char* strategy, int ranks) {
    parallel.strategy = strategy;
    tensors_that_fit(model, parallel, {.name = "adamw"}, {1, {ranks}}, arena * 5 / 4);
  };
  EXPECT_THAT([&] { fits("sharded_gradients", 4); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("or parallel.strategy = \"sharded_parameters\"")));
  EXPECT_THROW(fits("sharded_parameters", 1), ConfigError);
  EXPECT_NO_THROW(fits("sharded_parameters", 4));
}
}  // namespace
}  // namespace distdl::train
