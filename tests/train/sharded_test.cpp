// SPDX-License-Identifier: Apache-2.0
// Ranks that keep the optimizer's moments of a part of the model only: no byte of a run depends on it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {
namespace {
using ::testing::HasSubstr;

constexpr const char *kReplicas = "replicas", *kSharded = "sharded", *kGradients = "sharded_gradients";
constexpr double kEachLayer = 1e-6;  ///< MiB: each layer is a bucket, of which each rank has a slice

class Sharded : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 12;
    recipe_.parallel.strategy = kSharded;
  }
  std::string digest_of(int ranks, const char* strategy = kSharded) {
    const auto name = fmt::format("run{}", ++runs_);
    recipe_.parallel.strategy = strategy;
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    return digest(name);
  }
  void expect_same_bytes(const std::vector<int>& numbers_of_ranks, const std::string& what) {
    const auto expected = digest_of(1, kReplicas);
    for (const int ranks : numbers_of_ranks)
      for (const double mib : {0.0, kEachLayer}) {
        recipe_.parallel.bucket_mib = mib;
        EXPECT_EQ(digest_of(ranks), expected) << what << ", " << ranks << " ranks, buckets of " << mib << " MiB";
      }
  }
  int runs_ = 0;
};

TEST_F(Sharded, GivesTheSameBytesForEachOptimizer) {
  for (const std::string name : {"sgd", "adamw", "lamb", "lars"})
    for (const double clip_norm : {0.0, 0.1}) {
      recipe_.optim = {.name = name,
                       .learning_rate = 0.01,
                       .weight_decay = 0.01,
                       .clip_norm = clip_norm,
                       .ema_decay = clip_norm > 0 ? 0.9 : 0.0};
      expect_same_bytes(clip_norm > 0 ? std::vector{2, 8} : std::vector{3},
                        fmt::format("{}, clip_norm {}", name, clip_norm));
    }
}

TEST_F(Sharded, GivesTheSameBytesForEachPrecision) {
  for (const char* precision : {"bf16", "fp16"}) {
    recipe_.kernels.precision = precision;
    expect_same_bytes({4}, precision);
  }
}

TEST_F(Sharded, GivesTheSameBytesForALayerThatIsUsedTwice) {
  use_text();
  for (const bool tied : {true, false}) {
    recipe_.model.tied_head = tied;
    recipe_.optim.name = tied ? "adamw" : "lamb";
    expect_same_bytes({2, 5}, tied ? "tied" : "not tied");
  }
}

TEST_F(Sharded, UpdatesTheBucketsAsTheirSumsArrive) {
  recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .ema_decay = 0.9};
  const auto expected = digest_of(1, kReplicas);
  for (const double mib : {1e-6, 0.002}) {
    recipe_.parallel.bucket_mib = mib;
    for (const int ranks : {2, 3}) EXPECT_EQ(digest_of(ranks), expected) << mib << ", " << ranks;
  }
}

/// With one microbatch per rank a rank never holds more than a few buckets; with several it may change its mind.
TEST_F(Sharded, GivesTheSameBytesWithoutTheOthersGradients) {
  recipe_.parallel.microbatches = 4;
  for (const std::string name : {"adamw", "lamb", "lars", "fp16"}) {
    const bool scales = name == "fp16";
    recipe_.kernels.precision = scales ? name : "fp32";
    recipe_.optim = {.name = scales ? "sgd" : name, .learning_rate = 0.01, .weight_decay = 0.01, .ema_decay = 0.9};
    recipe_.optim.clip_norm = name == "lars" ? 0 : 0.1;
    const auto expected = digest_of(1, kReplicas);
    for (const int ranks : {2, 4}) EXPECT_EQ(digest_of(ranks, kGradients), expected) << name << ", " << ranks;
  }
  recipe_.kernels.precision = "fp32";
  recipe_.train.steps = 60;
  const auto expected = digest_of(1, kReplicas);
  rank_times_ = [](Rank rank, Step step, const parallel::MicrobatchPlan& plan) {
    const bool slow = step < Step(30) && rank == Rank(1);
    return RankTimes{slow ? 3.0 : 1.0, plan.of(rank).count * (slow ? 3.0 : 1.0)};
  };
  EXPECT_EQ(digest_of(3, kGradients), expected);
}

TEST_F(Sharded, MicrobatchesMove) {
  recipe_.train.steps = 60;
  const auto expected = digest_of(1, kReplicas);
  rank_times_ = [](Rank rank, Step step, const parallel::MicrobatchPlan& plan) {
    const bool slow = step < Step(30) && rank == Rank(1);
    return RankTimes{slow ? 3.0 : 1.0, plan.of(rank).count * (slow ? 3.0 : 1.0)};
  };
  EXPECT_EQ(digest_of(3), expected);
  EXPECT_FALSE(recorder_.shares.empty());
}

TEST_F(Sharded, ACheckpointKnowsNothingOfIt) {
  for (const std::string name : {"adamw", "lars"}) {
    recipe_.optim = {.name = name, .learning_rate = 0.01, .ema_decay = 0.9};
    const auto expected = digest_of(1, kReplicas);
    const auto go_on = [&](const char* strategy, int ranks, int steps = 0) {
      recipe_.parallel.strategy = strategy;
      recipe_.parallel.bucket_mib = ranks % 2 == 0 ? kEachLayer : 0;
      testing::internal::CaptureStderr();
      const auto end = steps > 0 ? run(ranks, name, steps) : run(ranks, name);
      EXPECT_EQ(end, steps > 0 ? Outcome::stopped : Outcome::finished);
      EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << strategy << " warned";
    };
    go_on(kSharded, 3, 1);
    const auto shared = digest(name);
    go_on(kReplicas, 2, 1);
    go_on(kSharded, 2, 1);
    go_on(kSharded, 4, 1);
    go_on(kReplicas, 1, 1);
    go_on(kSharded, 8);
    EXPECT_EQ(digest(name), expected) << name;
    recipe_.parallel.strategy = kReplicas;
    EXPECT_EQ(run(2, name + "_replicas", 1), Outcome::stopped);
    EXPECT_EQ(digest(name + "_replicas"), shared) << name << " after two steps";
  }
}

TEST_F(Sharded, SavesInEachMode) {
  recipe_.optim = {.name = "adamw", .learning_rate = 0.01};
  const auto expected = digest_of(1, kReplicas);
  for (const char* mode : {"lazy", "sync"}) {
    recipe_.checkpoint.mode = mode;
    recipe_.checkpoint.every = 1;
    recipe_.parallel.strategy = kSharded;
    EXPECT_EQ(run(3, mode, 7), Outcome::stopped);
    EXPECT_EQ(run(2, mode), Outcome::finished);
    EXPECT_EQ(digest(mode), expected) << mode;
  }
}

TEST_F(Sharded, SnapshotsMoveToOtherRanksAndStrategies) {
  recipe_.optim = {.name = "adamw", .learning_rate = 0.01};
  const auto expected = digest_of(1, kReplicas);
  recipe_.checkpoint = {.every = 0, .memory_every = 4};
  for (const char* strategy : {kReplicas, kSharded}) {
    recorder_.started.clear();
    recipe_.parallel.bucket_mib = kEachLayer;
    recipe_.parallel.strategy = strategy;
    crash_at_ = 8;
    EXPECT_THROW(run(3, strategy), std::runtime_error);
    crash_at_ = -1;
    recipe_.parallel.strategy = strategy == kSharded ? kReplicas : kSharded;
    EXPECT_EQ(run(2, strategy), Outcome::finished);
    EXPECT_EQ(recorder_.started.back().resumed_from, Step(8));
    EXPECT_THAT(recorder_.started.back().resumed_source, HasSubstr("snapshots ("));
    EXPECT_EQ(digest(strategy), expected) << strategy;
  }
}

TEST_F(Sharded, SnapshotsGoToPartnersParityAndDisks) {
  recipe_.optim = {.name = "adamw", .learning_rate = 0.01};
  const auto expected = digest_of(1, kReplicas);
  recipe_.checkpoint = {
      .every = 0, .partner_every = 3, .parity_every = 4, .disk_every = 4, .disk_folder = (folder_ / "disk").string()};
  recipe_.parallel.strategy = kSharded;
  crash_at_ = 8;
  EXPECT_THROW(run(4, "levels"), std::runtime_error);
  forget_memory("levels");
  crash_at_ = -1;
  EXPECT_EQ(run(3, "levels"), Outcome::finished);
  EXPECT_THAT(recorder_.started.back().resumed_source, HasSubstr("4 of a node's disk"));
  EXPECT_EQ(digest("levels"), expected);
}

TEST_F(Sharded, APartOfACheckpointWillDo) {
  recipe_.optim = {.name = "adamw", .learning_rate = 0.01};
  recipe_.checkpoint.partial = true;
  for (const char* strategy : {kReplicas, kSharded}) {
    recipe_.parallel.strategy = kReplicas;
    recipe_.model.hidden = {16};
    recipe_.model.batch_norm = false;
    EXPECT_EQ(run(2, strategy, 4), Outcome::stopped);
    recipe_.parallel.strategy = strategy;
    recipe_.model.batch_norm = true;
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(3, strategy), Outcome::finished);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("first_moment/fc1_norm.weight"));
  }
  EXPECT_EQ(digest(kSharded), digest(kReplicas));
}

TEST_F(Sharded, ACheckpointOfAnotherModelIsRefused) {
  EXPECT_EQ(run(2, "other", 4), Outcome::stopped);
  recipe_.model.hidden = {17};
  EXPECT_THAT(error_of(3, "other"), HasSubstr("does not fit this model: tensor \"momentum/fc1.bias\""));
  EXPECT_EQ(code_, ExitCode::incompatible);
}

TEST_F(Sharded, ARankHoldsTheMomentsOfItsShardOnly) {
  const auto backend = kernels::make_backend({});
  recipe_.model.hidden = {1024};
  const auto tensors = model::tensors_of(model::describe_model(recipe_.model, {1, 12, 12}, 4));
  recipe_.optim = {.name = "adamw", .ema_decay = 0.9};
  const std::size_t arena = tensors.layout.size() * sizeof(float);
  for (const int ranks : {2, 4, 8}) {
    std::size_t moments = 0, most = 0;
    const std::size_t border = tensors.layout.tensors()[2].offset;
    const std::vector<optim::Elements> parts{{border, tensors.layout.size()}, {0, border}};
    for (const auto& shard : optim::shards_of(recipe_.optim, tensors.layout, ranks, parts).of) {
      TrainingState state;
      allocate(state, *backend, tensors.layout, optim::state_of(recipe_.optim), shard);
      ASSERT_EQ(state.optimizer.size(), 3u);
      EXPECT_EQ(state.optimizer[2].memory.bytes(), arena) << "of the average";
      EXPECT_EQ(state.bytes(), 4 * arena) << "of all ranks";
      const std::size_t own = state.optimizer[0].memory.bytes() + state.optimizer[1].memory.bytes();
      moments += own;
      most = std::max(most, own);
    }
    EXPECT_EQ(moments, 2 * arena) << ranks;
    EXPECT_LE(static_cast<double>(most), 1.05 * 2 * static_cast<double>(arena) / ranks) << ranks;
  }
}

TEST_F(Sharded, AModelMayFitThatWouldNotFitOtherwise) {
  recipe_.optim.name = "adamw";
  const auto fits = [&](const char* strategy, const RanksOfMachine& ranks, std::uint64_t memory) {
    recipe_.parallel.strategy = strategy;
    tensors_that_fit(model::describe_model(recipe_.model, {1, 12, 12}, 4), recipe_.parallel, recipe_.optim, ranks,
                     memory);
  };
  constexpr std::uint64_t kLittle = 30'000;  // of some 41 KB: four arenas of 10 KB
  EXPECT_NO_THROW(fits(kSharded, {1, {4}}, kLittle));
  EXPECT_THROW(fits(kSharded, {1, {16}}, kLittle / 2), ConfigError);
  EXPECT_NO_THROW(fits(kGradients, {1, {16}}, kLittle / 2));
  EXPECT_THROW(fits(kGradients, {1, {4}}, kLittle / 2), ConfigError) << "with three microbatches each";
  EXPECT_THROW(fits(kSharded, {1, {1}}, kLittle), ConfigError);
  EXPECT_THROW(fits(kSharded, {4, {4}}, kLittle), ConfigError) << "that share a machine";
  try {
    fits(kReplicas, {1, {4}}, kLittle);
    ADD_FAILURE() << "it fits";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("parallel.strategy = \"sharded\" on several ranks"));
  }
}

TEST_F(Sharded, RefusesAudits) {
  recipe_.train.audit_every = 4;
  EXPECT_THAT(error_of(2, "audited"), HasSubstr("with parallel.strategy = \"sharded\" a rank alone holds its part"));
  EXPECT_EQ(code_, ExitCode::config);
  EXPECT_THAT([this] { recipe_.parallel.strategy = "zero1"; },
              testing::ThrowsMessage<ConfigError>(HasSubstr("\"zero1\" is not \"replicas\", \"sharded\", ")));
}
}  // namespace
}  // namespace distdl::train
