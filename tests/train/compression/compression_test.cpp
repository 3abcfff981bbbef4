// SPDX-License-Identifier: Apache-2.0
// Gradients that ranks send in fewer bytes: the result depends on the number of ranks, but not on interruptions.

#include <cstring>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/train/state/residuals.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;
using ::testing::Each;
using ::testing::HasSubstr;

class Compressed : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.model.hidden = {24};
    recipe_.train.steps = 12;
    recipe_.parallel.compression.fraction = 0.05;
    recipe_.parallel.compression.rank = 2;
    recipe_.parallel.compression.warmup_steps = 2;
    recipe_.checkpoint.every = 0;
  }
};

TEST_F(Compressed, AStopAndAResumeOnAsManyRanksGiveTheSameBytes) {
  for (const auto compression :
       {Compression::bf16, Compression::int8, Compression::topk, Compression::onebit, Compression::powersgd}) {
    recipe_.parallel.compression.encoding = compression;
    const auto name = std::string(recipe_.parallel.compression.encoding.name());
    const auto whole = digest_of(3, "whole-" + name);
    EXPECT_EQ(run(3, "cut-" + name, 4), Outcome::stopped);
    recipe_.parallel.bucket_mib = 1e-6;  // each layer is a bucket, while the backward pass runs
    EXPECT_EQ(digest_of(3, "cut-" + name), whole) << name;
    recipe_.parallel.bucket_mib = 0;
    EXPECT_EQ(ranks_of_residuals("cut-" + name), 3);
    EXPECT_EQ(recorder_.steps.back().compression, name);
  }
}

TEST_F(Compressed, BeginsWithAWarmup) {
  recipe_.parallel.compression.encoding = Compression::powersgd;
  recipe_.parallel.compression.warmup_steps = 5;
  const auto whole = digest_of(2, "whole");
  std::vector<std::string> used;
  for (const auto& step : recorder_.steps) used.push_back(step.compression);
  EXPECT_THAT(std::span(used).first(5), Each("int8"));
  EXPECT_THAT(std::span(used).subspan(5), Each("powersgd"));
  EXPECT_EQ(run(2, "cut", 3), Outcome::stopped);  // with residuals of int8
  EXPECT_EQ(run(2, "cut", 3), Outcome::stopped);
  EXPECT_EQ(digest_of(2, "cut"), whole);
  recipe_.parallel.compression.warmup_steps = 0;
  EXPECT_NE(digest_of(2, "cold"), whole);
}

/// The first moment is coded, and the second one stays as it is.
TEST_F(Compressed, AdamHoldsItsSecondMomentsAfterTheWarmup) {
  recipe_.optim.name = "adamw";
  recipe_.optim.learning_rate = 1e-2;
  recipe_.optim.clip_norm = 0;
  recipe_.parallel.compression.warmup_steps = 4;
  recipe_.checkpoint.mode = checkpoint::SaveMode::lazy;
  const auto held = [&](const std::string& name) {
    const auto state = checkpoint::open(folder_ / name).state;
    const auto found = state.find(kHeldUpdates);
    return found == state.end() ? "" : found->second;
  };
  for (const auto compression : {Compression::onebit, Compression::topk}) {
    recipe_.parallel.compression.encoding = compression;
    const auto name = std::string(recipe_.parallel.compression.encoding.name());
    const auto whole = digest_of(3, "whole-" + name);
    EXPECT_EQ(held("whole-" + name), "8");
    EXPECT_EQ(run(3, "cut-" + name, 3), Outcome::stopped);  // before the first step that holds
    EXPECT_EQ(held("cut-" + name), "");
    EXPECT_EQ(run(3, "cut-" + name, 2), Outcome::stopped);
    EXPECT_EQ(held("cut-" + name), "3");
    EXPECT_EQ(digest_of(3, "cut-" + name), whole) << name;
    recipe_.checkpoint.every = 4;  // a copy is made while the first step that holds begins
    crash_at_ = 6;
    awaits_saves_ = false;
    EXPECT_THROW(run(3, "crashed-" + name), std::runtime_error);
    crash_at_ = -1;
    EXPECT_EQ(digest_of(3, "crashed-" + name), whole) << name;
    recipe_.checkpoint.every = 0;
  }
  recipe_.parallel.compression.encoding = Compression::onebit;
  EXPECT_EQ(run(3, "other", 6), Outcome::stopped);
  EXPECT_EQ(run(2, "other", 1), Outcome::stopped);
  const auto held_so_far = recorder_.steps.back().step.value - 4;
  EXPECT_EQ(run(1, "other", 1), Outcome::stopped);  // which encodes nothing
  EXPECT_EQ(held("other"), std::to_string(held_so_far));
  recipe_.parallel.compression.encoding = Compression::none;
  EXPECT_EQ(run(2, "other"), Outcome::finished);
  EXPECT_EQ(held("other"), std::to_string(held_so_far));
  recipe_.parallel.compression.encoding = Compression::onebit;
  recipe_.optim.clip_norm = 1;
  EXPECT_EQ(run(2, "clipped"), Outcome::finished);
  EXPECT_EQ(held("clipped"), "");
}

TEST_F(Compressed, SnapshotsHaveTheResiduals) {
  recipe_.parallel.compression.encoding = Compression::powersgd;
  const auto whole = digest_of(2, "whole");
  recipe_.checkpoint.memory_every = 2;
  crash_at_ = 4;
  for (const char* name : {"equal", "fewer", "more", "none"}) EXPECT_THROW(run(2, name), std::runtime_error);
  crash_at_ = -1;
  EXPECT_EQ(digest_of(2, "equal"), whole);
  EXPECT_EQ(run(1, "fewer"), Outcome::finished);
  EXPECT_EQ(run(3, "more"), Outcome::finished);
  EXPECT_EQ(ranks_of_residuals("fewer"), 1);
  EXPECT_EQ(ranks_of_residuals("more"), 3);
  recipe_.parallel.compression.encoding = Compression::none;
  EXPECT_EQ(run(2, "none"), Outcome::finished);
  EXPECT_EQ(ranks_of_residuals("none"), 0);
  for (const auto& started : recorder_.started) EXPECT_EQ(started.resumed_from.value_or(Step(4)), Step(4));
}

TEST_F(Compressed, AResumeMayHaveOtherRanksAndAnotherCompression) {
  recipe_.train.steps = 16;
  recipe_.parallel.compression.encoding = Compression::onebit;
  EXPECT_EQ(run(3, "cut", 3), Outcome::stopped);
  EXPECT_EQ(run(2, "cut", 3), Outcome::stopped);
  EXPECT_EQ(ranks_of_residuals("cut"), 2);
  recipe_.parallel.compression.encoding = Compression::int8;
  EXPECT_EQ(run(2, "cut", 2), Outcome::stopped);
  recipe_.parallel.compression.encoding = Compression::automatic;  // all ranks are on one host: none
  EXPECT_EQ(run(2, "cut", 2), Outcome::stopped);
  EXPECT_EQ(recorder_.steps.back().compression, "none");
  recipe_.parallel.compression.encoding = Compression::none;
  EXPECT_EQ(run(4, "cut"), Outcome::finished);
  EXPECT_EQ(ranks_of_residuals("cut"), 0);
}

TEST_F(Compressed, LearnsAsWellAsWithoutCompression) {
  recipe_.train.steps = 60;
  EXPECT_EQ(run(2, "none"), Outcome::finished);
  const double accuracy = *recorder_.evaluated.back().accuracy;
  EXPECT_GT(accuracy, 0.4);  // of 4 classes
  for (const auto& encoding : parallel::kEncodings) {
    if (encoding.name.value == Compression::none) continue;
    recipe_.parallel.compression.encoding = encoding.name.value;
    EXPECT_EQ(run(2, std::string(recipe_.parallel.compression.encoding.name())), Outcome::finished);
    EXPECT_NEAR(*recorder_.evaluated.back().accuracy, accuracy, 0.1) << recipe_.parallel.compression.encoding.name();
  }
}

/// As if a checkpoint of `saved` ranks had been read, whose rows are 1, 2, 4, ... in each element.
TEST(CompressionTargets, OtherRanksGetTheSameSum) {
  tensor::ArenaLayout layout;
  layout.add("a", {3, 2000});
  layout.add("b", {2000});
  constexpr int kSaved = 5;
  const std::vector<checkpoint::TensorEntry> found{{"parameter/a", tensor::DataType::float32, {3, 2000}},
                                                   {"residual/a", tensor::DataType::float32, {kSaved, 3, 2000}},
                                                   {"residual/b", tensor::DataType::float32, {kSaved, 2000}}};
  for (const int ranks : {1, 2, 5, 7}) {
    float sum = 0;
    for (int rank = 0; rank <= ranks; ++rank) {  // the last one has none
      auto state = parallel::make_compression_state({.compression = {Compression::int8}}, layout);
      CompressionTargets targets(state, layout, layout, Rank(rank), ranks, found);
      for (const auto& target : targets.targets()) {
        const auto values = static_cast<std::size_t>(tensor::element_count(target.box.extent));
        const std::vector<float> row(values, static_cast<float>(1 << target.box.offset[0]));
        if (values > 0) std::memcpy(target.bytes, row.data(), values * sizeof(float));
      }
      targets.finish();
      EXPECT_FALSE(targets.drops_residuals());
      const auto residual = state.residual.as<float>();
      for (const auto& view : layout.tensors())
        for (const float value : residual.subspan(view.offset, view.count)) ASSERT_EQ(value, residual[0]);
      sum += residual[0];
    }
    EXPECT_EQ(sum, (1 << kSaved) - 1) << ranks << " ranks";
  }
}

TEST_F(Compressed, RefusesWhatIsNotBuilt) {
  recipe_.parallel.compression.encoding = Compression::int8;
  const Recipe good = recipe_;
  const auto error = [&](const std::function<void(Recipe&)>& change) {
    Recipe recipe = good;
    change(recipe);
    try {
      check(recipe);
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(error([](Recipe&) {}), "");
  EXPECT_THAT(error([](Recipe& r) { r.parallel.strategy = "auto"; }),
              HasSubstr("parallel.compression = \"int8\" and parallel.strategy = \"auto\" exclude each other"));
  EXPECT_THAT(error([](Recipe& r) { r.kernels.backend = "cuda"; }), HasSubstr("in host memory"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.compression.fraction = 0.6; }), HasSubstr("at most 0.5"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.compression.rank = 0; }), HasSubstr("between 1 and 64"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.compression.warmup_steps = -1; }), HasSubstr("must not be negative"));
}
}  // namespace
}  // namespace distdl::train
