// SPDX-License-Identifier: Apache-2.0
// Ranks that have some of the layers each: no byte of a run depends on it.

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/train/ranks/stage_message.hpp>

namespace distdl::train {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

class Pipelines : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 4;
    recipe_.checkpoint.every = 3;
  }
  std::string digest_of(int ranks, int pipeline, const char* schedule = "1f1b") {
    const auto name = fmt::format("run{}", ++runs_);
    recipe_.parallel.pipeline_ranks = pipeline;
    recipe_.parallel.schedule = schedule;
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    return digest(name);
  }
  void use_gpt() {
    use_text();
    recipe_.model.layers = 2;
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .clip_norm = 0.1, .ema_decay = 0.9};
  }
  int runs_ = 0;
};

TEST_F(Pipelines, EachProductGivesTheSameBytes) {
  use_gpt();
  for (const bool tied : {true, false}) {
    recipe_.model.tied_head = tied;
    recipe_.model.variant = tied ? "gpt2" : "llama";
    recipe_.model.kv_heads = tied ? 0 : 1;
    const auto expected = digest_of(1, 1);
    const auto loss = recorder_.finished.back().loss;
    for (const auto& [ranks, pipeline] : {std::pair(2, 2), {4, 4}, {6, 3}, {8, tied ? 2 : 8}})
      EXPECT_EQ(digest_of(ranks, pipeline), expected) << tied << ", " << ranks << " ranks, pipelines of " << pipeline;
    EXPECT_EQ(recorder_.finished.back().loss, loss);
  }
}

TEST_F(Pipelines, EachScheduleGivesTheSameBytes) {
  use_gpt();
  const auto expected = digest_of(1, 1);
  for (const char* schedule : {"gpipe", "1f1b", "zero-bubble", "interleaved"})
    for (const auto& [ranks, pipeline, strategy] : {std::tuple(2, 2, "replicas"), {6, 2, "sharded_parameters"}}) {
      recipe_.parallel.strategy = strategy;
      shared_memory_ranks_ = ranks == 6 ? 2 : 0;  // messages to other nodes, too
      EXPECT_EQ(digest_of(ranks, pipeline, schedule), expected) << schedule << ", " << ranks << ", " << pipeline;
    }
}

/// Which the receiver tells here.
TEST(StageMessage, MessagesOnANodeArriveWhileTheirSenderComputes) {
  constexpr std::size_t kBytes = std::size_t{1} << 20, kMessages = 3;
  std::atomic<bool> has_received = false;
  world::run_threads(2, [&](world::World& world) {
    const auto communicator = comm::Communicator::connect(world, {});
    const auto backend = kernels::make_backend({.backend = "reference"});
    const bool sends = world.rank() == Rank(0);
    {
      const auto memory = communicator->allocate_common(2 * kMessages * kBytes);
      CommonRoom room{memory.as<std::byte>(), sends ? 0 : kMessages * kBytes};
      std::vector<StageMessage> messages;
      for (std::size_t i = 0; i < kMessages; ++i)
        messages.emplace_back(*backend, *communicator, 5).use(room, sends ? kBytes : 0);
      for (std::size_t i = 0; i < kMessages; ++i) {
        std::vector<std::byte> values(kBytes, std::byte(sends ? i + 1 : 0));
        if (sends)
          messages[i].send(values, Rank(1));
        else
          messages[i].receive(values, Rank(0));
        EXPECT_EQ(std::ranges::count(values, std::byte(i + 1)), std::ptrdiff_t{kBytes});
      }
      if (!sends) has_received = true;
      for (int i = 0; i < 1000 && !has_received; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(has_received);
      for (auto& message : messages) message.end();
    }
    communicator->close();
  });
}

TEST_F(Pipelines, StagesChosenByHandOrByCostsGiveTheSameBytes) {
  use_gpt();
  const auto expected = digest_of(1, 1);
  recipe_.parallel.stage_layers = {1, 5, 3};
  EXPECT_EQ(digest_of(3, 3), expected);
  testing::internal::CaptureStderr();
  EXPECT_EQ(digest_of(4, 3), expected) << "pipelines of another length";
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("parallel.stage_layers fits those only"));
  recipe_.parallel.stage_layers = {1, 5, 4};
  recipe_.parallel.pipeline_ranks = 3;
  EXPECT_THAT(error_of(3, "wrong"), HasSubstr("the nearest possible choice is [1, 5, 3]"));
  recipe_.parallel.stage_layers = {};
  stage_costs_ = {9, 1, 1, 1, 1, 1, 1, 1, 9};
  EXPECT_EQ(digest_of(3, 3), expected) << "stages of 1, 7 and 1 layers";
  stage_costs_.pop_back();
  EXPECT_THAT(error_of(3, "short"), HasSubstr("there are costs for 8 stages"));
}

TEST_F(Pipelines, RanksWithSeveralStagesGiveTheSameBytes) {
  use_gpt();
  recipe_.model.tied_head = true;
  recipe_.parallel.strategy = "sharded_parameters";
  recipe_.parallel.microbatches = 11;  // which replicas do not share equally
  recipe_.parallel.interleave = 3;
  for (const char* precision : {"fp32", "fp16"}) {
    recipe_.kernels.precision = precision;
    const auto expected = digest_of(1, 1);
    const auto loss = recorder_.finished.back().loss;
    for (const auto& [ranks, pipeline] : {std::pair(2, 2), {6, 2}})
      EXPECT_EQ(digest_of(ranks, pipeline, "interleaved"), expected) << precision << ", " << ranks;
    EXPECT_EQ(recorder_.finished.back().loss, loss) << precision;
  }
  recipe_.kernels.precision = "fp32";
  const auto expected = digest_of(1, 1);
  recipe_.parallel.interleave = 2;
  recipe_.parallel.stage_layers = {1, 1, 3, 1, 1, 2};
  EXPECT_EQ(digest_of(3, 3, "interleaved"), expected) << "stages chosen by hand";
}

TEST_F(Pipelines, RanksWithSeveralStagesGoOnWithOthers) {
  use_gpt();
  recipe_.train.steps = 12;
  recipe_.train.evaluate_every = 0;
  recipe_.train.evaluate_every_steps = 2;
  const auto expected = digest_of(1, 1);
  const auto loss = recorder_.finished.back().loss;
  recipe_.parallel.schedule = "interleaved";
  recipe_.parallel.pipeline_ranks = 4;
  EXPECT_EQ(run(4, "moved", 3), Outcome::stopped);
  recipe_.parallel.pipeline_ranks = 2;
  EXPECT_EQ(run(2, "moved", 2), Outcome::stopped);
  EXPECT_EQ(run(1, "moved", 1), Outcome::stopped) << "one rank is left";
  EXPECT_EQ(run(2, "moved"), Outcome::finished);
  EXPECT_EQ(digest("moved"), expected);
  EXPECT_EQ(recorder_.finished.back().loss, loss);
}

TEST_F(Pipelines, ModelsOfImagesGiveTheSameBytes) {
  recipe_.train.steps = 2;
  recipe_.optim.clip_norm = 0.1;
  recipe_.parallel = {.microbatches = 2, .microbatch_size = 2};
  recipe_.data.holdout = 6;
  for (const model::Options& model :
       {model::Options{.name = "lenet", .hidden = {12}, .batch_norm = true}, model::Options{.name = "resnet18"},
        model::Options{.name = "vit", .layers = 2, .width = 16, .heads = 2, .patch = 4}}) {
    recipe_.model = model;
    const auto expected = digest_of(1, 1);
    const char* const schedule = recipe_.model.name == "lenet" ? "1f1b" : "zero-bubble";
    EXPECT_EQ(digest_of(2, 2, schedule), expected) << model.name << ", " << schedule;
    if (recipe_.model.name == "resnet18") continue;
    EXPECT_EQ(digest_of(2, 2, "interleaved"), expected) << model.name << ", interleaved";
  }
}

TEST_F(Pipelines, EachPrecisionAndOptimizerGivesTheSameBytes) {
  use_gpt();
  for (const char* precision : {"bf16", "fp16"}) {
    recipe_.kernels.precision = precision;
    recipe_.optim.clip_norm = 0;
    EXPECT_EQ(digest_of(1, 1), digest_of(4, 2)) << precision;
  }
  recipe_.kernels.precision = "fp32";
  for (const char* name : {"lamb", "sgd"}) {
    recipe_.optim.name = name;
    EXPECT_EQ(digest_of(1, 1), digest_of(3, 3)) << name;
  }
}

TEST_F(Pipelines, StagesMayHaveLayersInShards) {
  use_gpt();
  recipe_.model.heads = 4;
  recipe_.parallel.tensor_shards = 4;
  const auto expected = digest_of(1, 1);
  for (const char* schedule : {"1f1b", "zero-bubble"})
    for (const auto& [ranks, pipeline] : {std::pair(2, 2), {6, 3}})
      EXPECT_EQ(digest_of(ranks, pipeline, schedule), expected) << schedule << ", " << ranks << ", " << pipeline;
  recipe_.parallel.tensor_ranks = 4;
  EXPECT_EQ(digest_of(4, 1), expected) << "on ranks of their own";
}

TEST_F(Pipelines, StagesMayHaveTheirShardsOnSeveralRanks) {
  use_gpt();
  recipe_.model.heads = 4;
  recipe_.parallel.tensor_shards = 4;
  for (const bool tied : {true, false}) {
    recipe_.model.tied_head = tied;
    recipe_.parallel.tensor_ranks = 1;
    const auto expected = digest_of(1, 1);
    recipe_.parallel.tensor_ranks = 2;
    EXPECT_EQ(digest_of(4, 2, tied ? "1f1b" : "zero-bubble"), expected) << tied;
    EXPECT_EQ(digest_of(8, 2, "interleaved"), expected) << tied;
    recipe_.parallel.tensor_ranks = 3;
    EXPECT_EQ(digest_of(6, 2), expected) << tied << ": with 1, 1 and 2 shards";
  }
  recipe_.parallel.tensor_ranks = 2;
  testing::internal::CaptureStderr();
  EXPECT_EQ(digest_of(3, 2), digest_of(1, 2));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("3 ranks: 1 pipeline of 3 stages, not of parallel.pipeline_ranks = 2 and"));
  recipe_.optim.clip_norm = 0;
  recipe_.kernels.precision = "bf16";
  recipe_.parallel.tensor_ranks = 1;
  const auto expected = digest_of(1, 1);
  recipe_.parallel.tensor_ranks = 2;
  for (const char* strategy : {"sharded", "sharded_gradients"})
    for (const char* recompute : {"none", "blocks"}) {
      recipe_.parallel.strategy = strategy;
      recipe_.parallel.recompute = recompute;
      EXPECT_EQ(digest_of(8, 2), expected) << strategy << ", " << recompute;
    }
}

TEST_F(Pipelines, AVitOnAProductGivesTheSameBytes) {
  recipe_.train.steps = 2;
  recipe_.optim.clip_norm = 0.1;
  recipe_.parallel = {.microbatches = 2, .microbatch_size = 2, .tensor_shards = 4};
  recipe_.data.holdout = 6;
  recipe_.model = {.name = "vit", .layers = 2, .width = 16, .heads = 4, .patch = 4, .dropout = 0.1};
  const auto expected = digest_of(1, 1);
  recipe_.parallel.tensor_ranks = 2;
  EXPECT_EQ(digest_of(8, 2), expected);
  recipe_.parallel.tensor_ranks = 4;
  EXPECT_EQ(digest_of(8, 2, "zero-bubble"), expected);
}

TEST_F(Pipelines, ReplicasMayBeSharded) {
  use_gpt();
  for (const auto& [optimizer, clip_norm] : {std::pair("adamw", 0.1), {"lamb", 0.0}}) {
    recipe_.optim.name = optimizer;
    recipe_.optim.clip_norm = clip_norm;
    recipe_.parallel.strategy = "replicas";
    const auto expected = digest_of(1, 1);
    for (const auto& [strategy, ranks] :
         {std::pair("sharded", 6), {"sharded_gradients", 4}, {"sharded_parameters", 4}, {"sharded_parameters", 2}}) {
      recipe_.parallel.strategy = strategy;
      EXPECT_EQ(digest_of(ranks, 2), expected) << strategy << ", " << optimizer << ", " << ranks;
    }
    EXPECT_EQ(digest_of(4, 2, "interleaved"), expected) << optimizer << ", interleaved";
  }
}

TEST_F(Pipelines, StagesMayRecomputeActivations) {
  use_gpt();
  recipe_.model.layers = 4;
  const auto expected = digest_of(1, 1);
  recipe_.parallel.recompute = "blocks";
  for (const char* schedule : {"gpipe", "1f1b", "interleaved"})
    for (const int ranks : {2, 4}) EXPECT_EQ(digest_of(ranks, 2, schedule), expected) << schedule << ", " << ranks;
  recipe_.parallel.schedule = "zero-bubble";
  EXPECT_THAT(error_of(2, "pieces"), HasSubstr("use \"1f1b\", or parallel.recompute = \"none\""));
  EXPECT_EQ(code_, ExitCode::config);
  recipe_.parallel.recompute = "auto";
  EXPECT_EQ(digest_of(2, 2, "zero-bubble"), expected) << "which keeps them";
}

TEST_F(Pipelines, ACheckpointMovesBetweenProducts) {
  use_gpt();
  recipe_.train.steps = 12;
  const auto expected = digest_of(1, 1);
  const auto go_on = [&](int ranks, int pipeline, int steps = -1) {
    recipe_.parallel.pipeline_ranks = pipeline;
    recipe_.parallel.strategy = ranks % 2 == 0 ? "sharded_parameters" : "replicas";
    EXPECT_EQ(run(ranks, "moved", steps), steps > 0 ? Outcome::stopped : Outcome::finished)
        << ranks << ", " << pipeline;
  };
  go_on(4, 2, 2);
  go_on(1, 1, 1);
  go_on(3, 3, 2);
  go_on(2, 1, 1);
  go_on(8, 4);
  EXPECT_EQ(digest("moved"), expected);
}

TEST_F(Pipelines, SnapshotsMoveBetweenProducts) {
  use_gpt();
  recipe_.train.steps = 12;
  const auto expected = digest_of(1, 1);
  recipe_.checkpoint = {.every = 0, .memory_every = 4};
  recipe_.parallel.strategy = "sharded_parameters";
  recipe_.parallel.pipeline_ranks = 2;
  crash_at_ = 8;
  EXPECT_THROW(run(4, "crashed"), std::runtime_error);
  crash_at_ = -1;
  recipe_.parallel.pipeline_ranks = 3;
  EXPECT_EQ(run(3, "crashed"), Outcome::finished);
  EXPECT_EQ(recorder_.started.back().resumed_from, Step(8));
  EXPECT_THAT(recorder_.started.back().resumed_source, HasSubstr("snapshots ("));
  EXPECT_EQ(digest("crashed"), expected);
}

TEST_F(Pipelines, TheRunGoesOnWithTheRanksThatThereAre) {
  use_gpt();
  const auto expected = digest_of(1, 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(digest_of(3, 2), expected);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("3 ranks: 1 pipeline of 3 stages, not of parallel.pipeline_ranks = 2, because 3 ranks do not "
                        "divide into pipelines of 2"));
}

TEST_F(Pipelines, StopsAndSavesAtTheSameStep) {
  use_gpt();
  recipe_.train.steps = 12;
  recipe_.parallel.pipeline_ranks = 2;
  EXPECT_EQ(run(4, "stopped", 2, 1), Outcome::stopped) << "asked of a first replica's last stage";
  EXPECT_EQ(recorder_.stopped.back().step, Step(3));
  EXPECT_EQ(run(4, "stopped", 1, 2), Outcome::stopped) << "and of a second replica's first one";
}

TEST_F(Pipelines, AnEvaluationIsGivenUpByAllStagesWhereOneMustStop) {
  use_gpt();
  recipe_.train.steps = 4;
  recipe_.train.evaluate_every = 0;
  recipe_.train.evaluate_every_steps = 2;
  recipe_.parallel.pipeline_ranks = 2;
  stop_is_pending_ = [](int rank) { return rank == 1; };
  EXPECT_EQ(run(4, "cut"), Outcome::stopped);
  EXPECT_EQ(recorder_.stopped.back().step, Step(2));
}
}  // namespace
}  // namespace distdl::train
