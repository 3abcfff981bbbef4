// SPDX-License-Identifier: Apache-2.0
// Runs of models that are divided into shards: the bytes depend on the shards, and on nothing else.
#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/model/models.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::train {
namespace {
using testing::HasSubstr;

class TensorShards : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.model.heads = 4;
    recipe_.data.holdout = 51;
    recipe_.parallel = {.microbatches = 6, .microbatch_size = 2, .tensor_shards = 4};
    recipe_.train.steps = 8;
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .clip_norm = 0.5};
  }
};

TEST_F(TensorShards, GiveTheSameBytesOnEveryNumberOfRanksAndAfterAStop) {
  const auto expected = digest_of(1, "on1");
  EXPECT_EQ(digest_of(3, "on3"), expected);
  EXPECT_EQ(run(2, "cut", 3), Outcome::stopped);
  recipe_.parallel.strategy = "sharded";
  EXPECT_EQ(run(4, "cut", 2), Outcome::stopped);
  testing::internal::CaptureStderr();
  EXPECT_EQ(digest_of(3, "cut"), expected);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "nothing has changed";
}

TEST_F(TensorShards, GiveTheSameBytesForEachModel) {
  const auto expect_same_bytes = [&](const std::string& name) {
    EXPECT_EQ(digest_of(3, name + "3"), digest_of(1, name + "1")) << name;
  };
  recipe_.parallel.strategy = "sharded";
  recipe_.optim.name = "lamb";
  recipe_.model.tied_head = false;
  recipe_.parallel.bucket_mib = 0.001;  // buckets end between tensors, not between parts of one, which LAMB measures
  expect_same_bytes("untied");
  recipe_.parallel.bucket_mib = 0;
  recipe_.model.variant = "llama";
  recipe_.model.kv_heads = 2;
  recipe_.parallel.tensor_shards = 2;
  expect_same_bytes("llama");
  recipe_.kernels.precision = "bf16";
  expect_same_bytes("bf16");
  recipe_.data.train = set().string();
  recipe_.model = {.name = "vit", .layers = 1, .width = 12, .heads = 2, .patch = 6};
  expect_same_bytes("vit");
}

TEST_F(TensorShards, GiveTheSameBytesOnEachNumberOfTensorRanks) {
  recipe_.optim.ema_decay = 0.9;
  recipe_.model.vocabulary = 257;  // which 4 does not divide
  recipe_.model.dropout = 0.1;
  recipe_.model.label_smoothing = 0.1;
  const auto expect_same_bytes = [&](const std::string& name, std::initializer_list<std::pair<int, int>> products) {
    recipe_.parallel.tensor_ranks = 1;
    const auto expected = digest_of(1, name);
    for (const auto& [ranks, tensor_ranks] : products)
      for (const char* strategy : {"replicas", "sharded"}) {
        recipe_.parallel.tensor_ranks = tensor_ranks;
        recipe_.parallel.strategy = strategy;
        EXPECT_EQ(digest_of(ranks, fmt::format("{}{}_{}_{}", name, ranks, tensor_ranks, strategy)), expected)
            << name << ": " << ranks << " ranks, " << tensor_ranks << " for shards, " << strategy;
      }
  };
  expect_same_bytes("gpt", {{2, 2}, {4, 4}, {8, 4}, {3, 4}});
  recipe_.model.tied_head = false;
  recipe_.model.variant = "llama";
  recipe_.model.kv_heads = 2;
  recipe_.parallel.tensor_shards = 2;
  recipe_.optim.name = "lamb";
  expect_same_bytes("llama", {{4, 2}});
  recipe_.kernels.precision = "bf16";
  expect_same_bytes("bf16", {{2, 2}});
  recipe_.optim.name = "lars";
  recipe_.kernels.precision = "fp16";
  expect_same_bytes("fp16", {{2, 2}});
  recipe_.kernels.precision = "fp32";
  recipe_.data.train = set().string();
  recipe_.model = {.name = "vit", .layers = 1, .width = 12, .heads = 2, .patch = 6};
  expect_same_bytes("vit", {{4, 2}});
}

TEST_F(TensorShards, GiveTheSameBytesWithShardedGradientsAndRecomputedActivations) {
  recipe_.parallel.microbatches = 2;  // one of each replica
  recipe_.model.layers = 3;
  recipe_.train.steps = 3;
  const auto expected = digest_of(1, "expected");
  for (const char* recompute : {"none", "blocks"})
    for (const char* strategy : {"sharded", "sharded_gradients", "sharded_parameters"})
      for (const auto& [ranks, tensor_ranks] : {std::pair(2, 1), {4, 2}}) {
        recipe_.parallel.recompute = recompute;
        recipe_.parallel.strategy = strategy;
        recipe_.parallel.tensor_ranks = tensor_ranks;
        const auto name = fmt::format("{}_{}_{}_{}", recompute, strategy, ranks, tensor_ranks);
        EXPECT_EQ(digest_of(ranks, name), expected) << name;
      }
  recipe_.parallel.strategy = "replicas";
  recipe_.parallel.tensor_ranks = 1;
  recipe_.parallel.pipeline_ranks = 2;
  const auto most = parallel::most_stages(model::divide(model::describe_model(recipe_.model, {10}, 257), 4));
  recipe_.parallel.stage_layers = {most - 1, 1};  // the last stage has the head alone
  EXPECT_EQ(digest_of(2, "head"), expected);
  recipe_.parallel.pipeline_ranks = 1;
  recipe_.parallel.stage_layers = {};
  testing::internal::CaptureStderr();
  recipe_.parallel.tensor_ranks = 4;
  EXPECT_EQ(digest_of(3, "uneven"), expected);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("4 tensor shards are not divided equally among 3 ranks"));
  recipe_.parallel.tensor_ranks = 3;
  EXPECT_THAT(error_of(3, "three"), HasSubstr("parallel.tensor_ranks = 3 does not divide parallel.tensor_shards = 4; "
                                              "the nearest number that does is 2"));
}

TEST_F(TensorShards, GiveTheSameBytesForConvolutions) {
  recipe_.data.train = set().string();
  recipe_.model = {.name = "resnet18"};
  recipe_.optim = {.name = "sgd", .learning_rate = 0.01, .momentum = 0.9, .clip_norm = 0.5};
  recipe_.parallel = {.microbatches = 2, .microbatch_size = 4, .tensor_shards = 4};
  recipe_.train.steps = 2;
  const auto expected = digest_of(1, "expected");
  recipe_.parallel.pipeline_ranks = recipe_.parallel.tensor_ranks = 2;
  EXPECT_EQ(digest_of(4, "product"), expected);
}

TEST_F(TensorShards, MoveBetweenProductsWhileTheRunGoesOn) {
  recipe_.train.steps = 14;
  const auto expected = digest_of(1, "expected");
  const auto go_on = [&](int ranks, int tensor_ranks, int stop_at, int stopper = 0) {
    recipe_.parallel.tensor_ranks = tensor_ranks;
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(ranks, "moved", stop_at, stopper), stop_at < 0 ? Outcome::finished : Outcome::stopped);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << ranks << ", " << tensor_ranks;
  };
  go_on(4, 4, 1, 3);
  go_on(2, 1, 1);
  go_on(4, 2, 1, 1);
  recipe_.parallel.strategy = "sharded";
  go_on(8, 4, 1, 6);
  go_on(6, 3, -1);
  EXPECT_EQ(digest("moved"), expected);
}

TEST_F(TensorShards, OnSeveralRanksMoveInSnapshotsToo) {
  const auto expected = digest_of(1, "expected");
  recipe_.checkpoint = {.every = 0, .memory_every = 3};
  recipe_.parallel.tensor_ranks = 4;
  crash_at_ = 4;
  EXPECT_THROW(run(4, "crashed"), std::runtime_error);
  crash_at_ = -1;
  recipe_.parallel.tensor_ranks = 2;
  EXPECT_EQ(digest_of(2, "crashed"), expected);
  EXPECT_EQ(recorder_.started.back().resumed_from, Step(3));
}

TEST_F(TensorShards, RefuseMoreRanksThanShards) {
  recipe_.parallel.tensor_ranks = 5;
  EXPECT_THAT(error_of(1, "five"), HasSubstr("parallel.tensor_ranks is 5, but must be between 1 and "
                                             "parallel.tensor_shards = 4"));
  EXPECT_EQ(code_, ExitCode::config);
}

/// Checkpoints hold whole tensors.
TEST_F(TensorShards, CheckpointsMoveBetweenNumbersOfShards) {
  recipe_.parallel.tensor_shards = 1;
  EXPECT_EQ(run(2, "whole", 8), Outcome::finished);
  const double loss = *recorder_.evaluated.back().loss;
  recipe_.parallel.tensor_shards = 2;
  recipe_.train.steps = 9;
  recipe_.optim.learning_rate = 1e-12;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(1, "whole"), Outcome::finished);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("resuming with parallel.tensor_shards = 2, but the checkpoint was written with 1"));
  EXPECT_NEAR(*recorder_.evaluated.back().loss, loss, 1e-4 * loss);
  recipe_.parallel.tensor_shards = 1;
  recipe_.train.steps = 10;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(3, "whole"), Outcome::finished);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("resuming with parallel.tensor_shards = 1, but the checkpoint was written with 2"));
  EXPECT_NEAR(*recorder_.evaluated.back().loss, loss, 1e-4 * loss);
}

TEST_F(TensorShards, OfTheVocabularyDivideTheMemoryForLogits) {
  recipe_.parallel.microbatch_size = 64;
  const auto divided = model::divide(model::describe_model(recipe_.model, {10}, 4096), 4);
  const auto fit = [&](std::size_t shards) {
    tensors_that_fit(model::branches_of(divided, 0, shards), recipe_.parallel, recipe_.optim, {1, {1}}, 4 << 20);
  };
  EXPECT_THROW(fit(4), ConfigError) << "5 MiB, as 16 bits each";
  EXPECT_NO_THROW(fit(1));
}

TEST_F(TensorShards, SnapshotsHoldTheirParts) {
  const auto expected = digest_of(1, "expected");
  recipe_.checkpoint = {.every = 0, .memory_every = 3};
  crash_at_ = 4;
  EXPECT_THROW(run(3, "crashed"), std::runtime_error);
  crash_at_ = -1;
  EXPECT_EQ(digest_of(2, "crashed"), expected);
  EXPECT_EQ(recorder_.started.back().resumed_from, Step(3));
}

TEST_F(TensorShards, ThatDoNotDivideTheModelAreRefused) {
  recipe_.parallel.tensor_shards = 3;
  EXPECT_THAT(error_of(1, "three"), HasSubstr("parallel.tensor_shards is 3, but must divide the 4 heads"));
  EXPECT_EQ(code_, ExitCode::config);
  recipe_.parallel.tensor_shards = 0;
  EXPECT_THAT(error_of(1, "none"), HasSubstr("parallel.tensor_shards is 0, but must be between 1 and"));
}
}  // namespace
}  // namespace distdl::train
