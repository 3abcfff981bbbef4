// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/base/env.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::train {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AuditedRun : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.audit_every = 4;
    recipe_.checkpoint.every = 2;
    recipe_.checkpoint.mode = "sync";
  }
  std::vector<std::int64_t> saved_steps(const std::string& name) {
    std::vector<std::int64_t> steps;
    for (const auto& one : checkpoint::list(folder_ / name)) steps.push_back(one.step.value);
    return steps;
  }
  /// The audit finds the flip in the step that it should, and names the rank.
  void expect_found(int ranks, const char* flip, int rank, std::int64_t step) {
    SCOPED_TRACE(fmt::format("{} of {} ranks", flip, ranks));
    const std::string name = fmt::format("{}-{}", flip, ranks);
    recorder_ = {};
    bit_flip_ = bit_flip_from(flip);
    EXPECT_THAT(error_of(ranks, name), HasSubstr(fmt::format("silent corruption found by the audit of step {}", step)));
    EXPECT_EQ(code_, ExitCode::corruption);
    ASSERT_THAT(recorder_.corrupted, SizeIs(1));
    const records::Corrupted& event = recorder_.corrupted[0];
    EXPECT_EQ(event.step, Step(step));
    EXPECT_THAT(event.ranks, ElementsAre(rank));
    EXPECT_TRUE(event.is_certain);
    EXPECT_THAT(event.hosts, SizeIs(1));
    EXPECT_EQ(event.audited, Step(step - 4));
    bit_flip_.reset();
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    EXPECT_EQ(digest(name), digest("whole")) << "what was saved after the last audit does not count";
  }
};

TEST_F(AuditedRun, ChangesNoBitsAndFindsNothing) {
  for (int ranks : {1, 2, 3, 6}) {
    recorder_ = {};
    const auto name = fmt::format("on{}", ranks);
    ASSERT_EQ(run(ranks, name), Outcome::finished);
    EXPECT_THAT(recorder_.corrupted, IsEmpty());
    std::vector<std::int64_t> steps;
    for (const auto& event : recorder_.audited) steps.push_back(event.step.value);
    EXPECT_THAT(steps, ElementsAre(0, 4, 8, 12, 16));
    EXPECT_EQ(digest(name), digest("on1"));
  }
  recipe_.train.audit_every = 0;
  const auto audited = recorder_.steps;
  recorder_ = {};
  ASSERT_EQ(run(2, "off"), Outcome::finished);
  ASSERT_EQ(recorder_.steps.size(), audited.size());
  for (std::size_t i = 0; i < audited.size(); ++i) EXPECT_EQ(recorder_.steps[i].loss, audited[i].loss);
}

TEST_F(AuditedRun, FindsAFlippedBitAndTheNextStartGoesBackToTheLastAuditedCheckpoint) {
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  expect_found(3, "parameters:1:5", 1, 8);
  expect_found(4, "parameters:0:8", 0, 8);
  expect_found(2, "gradients:1:8", 1, 8);
  expect_found(3, "gradients:2:6:5", 2, 8);
  expect_found(4, "results:1:6:5", 1, 8);
  expect_found(1, "gradients:0:12", 0, 12);
}

TEST_F(AuditedRun, FindsAFlipAfterTheLastAuditBeforeTheEnd) {
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  expect_found(3, "parameters:2:14", 2, 16);
}

TEST_F(AuditedRun, KeepsTheLastAuditedCheckpointAndSetsLaterOnesAside) {
  recipe_.train.audit_every = 8;
  recipe_.checkpoint.every = 1;
  bit_flip_ = bit_flip_from("parameters:1:9");
  EXPECT_THAT(error_of(3, "aside"), HasSubstr("up to step 8"));
  EXPECT_THAT(saved_steps("aside"), ElementsAre(8)) << "although checkpoint.keep = 2 newer ones were there";
  EXPECT_THAT(recorder_.corrupted.at(0).set_aside, ElementsAre(Step(14), Step(15)));
  int reasons = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "aside" / "quarantine"))
    reasons += std::filesystem::exists(entry.path() / "REASON");
  EXPECT_EQ(reasons, 2) << "moved, not deleted";
  bit_flip_.reset();
  EXPECT_EQ(run(3, "aside"), Outcome::finished);
  EXPECT_EQ(recorder_.started.at(1).resumed_from, Step(8));
}

TEST_F(AuditedRun, NamesNodesAsTheSchedulerCallsThem) {
  has_node_names_ = true;
  bit_flip_ = bit_flip_from("parameters:1:5");
  EXPECT_THAT(error_of(3, "named"), HasSubstr("audit of step 8 on n1: "));
  EXPECT_THAT(recorder_.corrupted.at(0).hosts, ElementsAre("n1"));
}

TEST_F(AuditedRun, OfTwoRanksWithDifferentParametersBothAreNamed) {
  bit_flip_ = bit_flip_from("parameters:1:5");
  EXPECT_THAT(error_of(2, "two"), HasSubstr("on one of "));
  ASSERT_THAT(recorder_.corrupted, SizeIs(1));
  EXPECT_THAT(recorder_.corrupted[0].ranks, ElementsAre(0, 1));
  EXPECT_FALSE(recorder_.corrupted[0].is_certain);
}

TEST_F(AuditedRun, SnapshotsAfterTheLastAuditDoNotCountEither) {
  recipe_.checkpoint.mode = "async";
  recipe_.checkpoint.memory_every = 1;
  ASSERT_EQ(run(3, "whole"), Outcome::finished);
  recorder_ = {};
  bit_flip_ = bit_flip_from("parameters:1:5");
  EXPECT_NE(error_of(3, "levels"), "no error");
  bit_flip_.reset();
  EXPECT_EQ(run(3, "levels"), Outcome::finished);
  EXPECT_LE(recorder_.started.at(1).resumed_from.value_or(Step(0)), Step(4));
  EXPECT_EQ(digest("levels"), digest("whole"));
}

TEST_F(AuditedRun, RaisesNoFalseAlarm) {
  recipe_.train.audit_every = 1;
  recipe_.train.steps = env_integer("DISTDL_AUDITS").value_or(200);
  recipe_.train.evaluate_every = 0;
  recipe_.checkpoint.every = 1000000;
  ASSERT_EQ(run(3, "many"), Outcome::finished);
  EXPECT_EQ(static_cast<std::int64_t>(recorder_.audited.size()), recipe_.train.steps + 1);
  EXPECT_THAT(recorder_.corrupted, IsEmpty());
}

TEST_F(AuditedRun, DropoutNormsAndAveragesRaiseNoFalseAlarm) {
  recipe_.train.audit_every = 1;
  recipe_.model = {.name = "vit", .layers = 2, .width = 16, .heads = 2, .patch = 4, .dropout = 0.2};
  recipe_.optim.name = "adamw";
  recipe_.optim.ema_decay = 0.9;
  recipe_.data.crop = 1;
  recipe_.data.mirror = true;
  ASSERT_EQ(run(4, "vit"), Outcome::finished);
  recipe_.model = {.name = "lenet", .batch_norm = true};
  recipe_.kernels.precision = "bf16";
  ASSERT_EQ(run(3, "lenet"), Outcome::finished);
  EXPECT_THAT(recorder_.corrupted, IsEmpty());
  EXPECT_EQ(recorder_.audited.size(), 2 * 17u);
}

TEST_F(AuditedRun, NeedsBitsThatRepeat) {
  recipe_.kernels.deterministic = false;
  EXPECT_THAT(error_of(2, "fast"), HasSubstr("kernels.deterministic"));
  EXPECT_EQ(code_, ExitCode::config);
}

/// Of ranks that hold a model together.
class AuditedGroups : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.model.layers = 2;
    recipe_.data.holdout = 0;
    recipe_.parallel = {.microbatches = 6, .microbatch_size = 2, .tensor_shards = 2, .context_chunks = 2};
    recipe_.train.steps = 3;
    recipe_.train.audit_every = 1;
    recipe_.optim.name = "adamw";
  }
  void take(int tensor, int context, int pipeline, const char* schedule) {
    recipe_.parallel.tensor_ranks = tensor;
    recipe_.parallel.context_ranks = context;
    recipe_.parallel.pipeline_ranks = pipeline;
    recipe_.parallel.schedule = schedule;
  }
  void expect_found(int ranks, const char* flip, const std::vector<int>& wrong, bool is_certain) {
    recorder_ = {};
    bit_flip_ = bit_flip_from(flip);
    EXPECT_THAT(error_of(ranks, fmt::format("{}-{}", flip, ++runs_)),
                HasSubstr("silent corruption found by the audit"));
    EXPECT_EQ(code_, ExitCode::corruption);
    ASSERT_THAT(recorder_.corrupted, SizeIs(1));
    EXPECT_EQ(recorder_.corrupted[0].ranks, wrong) << flip;
    EXPECT_EQ(recorder_.corrupted[0].is_certain, is_certain) << flip;
  }
  int runs_ = 0;
};

TEST_F(AuditedGroups, RaiseNoFalseAlarmAndChangeNoBits) {
  const auto expected = digest_of(1, "one");
  const auto expect_same = [&](int ranks, const char* name) {
    recorder_ = {};
    EXPECT_EQ(digest_of(ranks, name), expected) << name;
    EXPECT_THAT(recorder_.audited, SizeIs(4)) << name;
  };
  take(2, 1, 1, "1f1b");
  expect_same(4, "tensor");
  take(1, 1, 2, "1f1b");
  expect_same(2, "one pipeline");
  take(1, 1, 2, "interleaved");
  expect_same(4, "interleaved");
  take(2, 2, 2, "zero-bubble");
  expect_same(8, "all");
}

TEST_F(AuditedGroups, ShowWhichOneIsWrong) {
  take(2, 1, 1, "1f1b");
  expect_found(6, "parameters:3:1", {3}, true);
  expect_found(4, "parameters:3:1", {1, 3}, false);
  expect_found(6, "gradients:2:1", {2, 3}, false);
  take(1, 1, 2, "1f1b");
  expect_found(6, "gradients:3:2", {2, 3}, false);
  expect_found(2, "gradients:1:1", {0, 1}, false);
  take(1, 1, 2, "zero-bubble");
  expect_found(6, "results:4:1:5", {4, 5}, false);
}

class ResumedLoss : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    ASSERT_EQ(run(2, "resumed", 4), Outcome::stopped);
    recorded_loss_ = [this](Step step) {
      EXPECT_EQ(step, Step(5));
      return loss_;
    };
    run(2, "whole");
    for (const auto& step : recorder_.steps)
      if (step.step == Step(6)) loss_ = *step.loss;
    ASSERT_TRUE(loss_);
  }
  std::optional<double> loss_;
};

TEST_F(ResumedLoss, ThatRepeatsItselfIsNoNews) {
  EXPECT_EQ(run(3, "resumed"), Outcome::finished);
}

TEST_F(ResumedLoss, ThatDiffersInOneBitEndsTheRun) {
  loss_ = std::nextafter(*loss_, 0);
  const auto error = error_of(3, "resumed");
  EXPECT_THAT(error, HasSubstr("step 6 gave the loss"));
  EXPECT_THAT(error, HasSubstr(fmt::format("{:a}", *loss_)));
  EXPECT_EQ(code_, ExitCode::irreproducible);
  recipe_.train.check_resumed_loss = false;
  EXPECT_EQ(run(3, "resumed"), Outcome::finished);
}

TEST_F(ResumedLoss, IsNotComparedIfTheJobHasChanged) {
  loss_ = *loss_ + 1;
  recipe_.optim.weight_decay = 0.01;
  EXPECT_EQ(run(3, "resumed"), Outcome::finished);
}

}  // namespace
}  // namespace distdl::train
