// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/train/state/best.hpp>

namespace distdl::train {
namespace {
using ::testing::HasSubstr;

/// With what an evaluation cannot be better by, so that the first one stays the best.
constexpr double kOutOfReach = 1000;

records::Evaluated evaluated_at(std::int64_t step, double loss, double accuracy = 0) {
  return {Step(step), 0, loss, accuracy, 1};
}

TEST(BestEvaluation, IsTheOneWithTheLowestLossAndCountsTheWorseOnesSince) {
  Options options;
  options.stop_early_patience = 2;
  std::optional<BestEvaluation> best;
  take_evaluation(best, options, evaluated_at(10, 0.5));
  take_evaluation(best, options, evaluated_at(20, 0.6));
  EXPECT_EQ(best, (BestEvaluation{Metric::loss, 0.5, Step(10), Step(20), 1}));
  take_evaluation(best, options, evaluated_at(30, 0.4));
  EXPECT_EQ(best, (BestEvaluation{Metric::loss, 0.4, Step(30), Step(30), 0}));
  take_evaluation(best, options, evaluated_at(40, 0.4));
  EXPECT_FALSE(ends_early(best, options));
  take_evaluation(best, options, evaluated_at(50, 0.7));
  EXPECT_TRUE(ends_early(best, options));
  EXPECT_EQ(reason_of_early_end(*best), "2 evaluations in a row were not better than that of step 30 (loss 0.4)");
  options.stop_early_patience = 0;
  EXPECT_FALSE(ends_early(best, options));
}

TEST(BestEvaluation, IsTheHighestAccuracyIfThatIsTheMetric) {
  Options options;
  options.best_metric = Metric::accuracy;
  options.best_min_delta = 0.1;
  std::optional<BestEvaluation> best;
  take_evaluation(best, options, evaluated_at(1, 1, 0.5));
  take_evaluation(best, options, evaluated_at(2, 0.1, 0.59));
  EXPECT_EQ(best->step, Step(1)) << "by less than the least difference";
  take_evaluation(best, options, evaluated_at(3, 0.1, 0.61));
  EXPECT_EQ(best->step, Step(3));
  options.best_metric = Metric::loss;
  take_evaluation(best, options, evaluated_at(4, 0.1, 0.5));
  EXPECT_EQ(best->step, Step(4)) << "another metric begins anew";
}

TEST(BestEvaluation, CountsAStepOnce) {
  const Options options;
  std::optional<BestEvaluation> best;
  take_evaluation(best, options, evaluated_at(10, 0.5));
  take_evaluation(best, options, evaluated_at(20, 0.6));
  const auto before = best;
  take_evaluation(best, options, evaluated_at(20, 0.6));
  EXPECT_EQ(best, before);
}

TEST(BestEvaluation, IsTheSameAfterItWasText) {
  const BestEvaluation best{Metric::accuracy, 1.0 / 3, Step(300), Step(350), 1};
  EXPECT_EQ(best_evaluation_from(to_text(best)), best);
  for (const char* text : {"", "loss", "loss 0.5 3 2 1", "loss nan 3 4 1", "loss 0.5 3 4 -1", "loss 0.5 3 4 1 5",
                           "size 0.5 3 4 1", "loss 0.5 x 4 1"})
    EXPECT_THROW(best_evaluation_from(text), StorageError) << text;
}

class BestOfRun : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.evaluate_every = 0;
    recipe_.train.evaluate_every_steps = 2;
  }
  std::map<std::string, Step> tags(const std::string& name) {
    return checkpoint::read_tags(real_file_system(), folder_ / name);
  }
  bool has(const std::string& name, std::int64_t step) {
    return std::filesystem::exists(folder_ / name / checkpoint::step_folder_name(Step(step)));
  }
};

TEST_F(BestOfRun, EndsEarlyAtTheSameStepOnAnyRanksAndAfterResumes) {
  recipe_.train.stop_early_patience = 3;
  recipe_.train.best_min_delta = kOutOfReach;
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  EXPECT_EQ(recorder_.steps.size(), 8u) << "evaluations at 2, 4, 6 and 8";
  ASSERT_EQ(recorder_.finished.size(), 1u);
  EXPECT_EQ(recorder_.finished[0].step, Step(8));
  EXPECT_THAT(recorder_.finished[0].early, HasSubstr("3 evaluations in a row were not better than that of step 2"));
  EXPECT_EQ(run(3, "cut", 3), Outcome::stopped);  // after step 4, which the next start evaluates
  EXPECT_EQ(run(1, "cut", 0), Outcome::stopped);  // after 5
  EXPECT_EQ(run(2, "cut", 2), Outcome::stopped);  // after 8, whose evaluation is all that is left
  EXPECT_EQ(run(2, "cut"), Outcome::finished);
  EXPECT_EQ(recorder_.finished.back().step, Step(8));
  EXPECT_EQ(recorder_.finished.back().early, recorder_.finished[0].early);
  EXPECT_EQ(digest("cut"), digest("whole"));
}

TEST_F(BestOfRun, ARunThatEndedEarlyStaysAtItsEndUnlessTheJobIsMorePatient) {
  recipe_.train.stop_early_patience = 1;
  recipe_.train.best_min_delta = kOutOfReach;
  ASSERT_EQ(run(2, "run"), Outcome::finished);
  const auto steps = recorder_.steps.size();
  EXPECT_EQ(steps, 4u);
  EXPECT_EQ(run(1, "run"), Outcome::finished);
  EXPECT_EQ(recorder_.steps.size(), steps);
  EXPECT_EQ(recorder_.finished.back().early, recorder_.finished.front().early);
  recipe_.train.stop_early_patience = 0;
  EXPECT_EQ(run(2, "run"), Outcome::finished);
  EXPECT_EQ(recorder_.finished.back().step, Step(16));
  EXPECT_EQ(recorder_.finished.back().early, "");
  EXPECT_EQ(digest("run"), digest_of(1, "never"));
}

TEST_F(BestOfRun, EndsAtAStepAndGoesOnWithTheSameBytes) {
  recipe_.optim.schedule = "cosine";
  const auto whole = digest_of(2, "whole");
  recorder_ = {};
  recipe_.train.end_at_step = 5;
  EXPECT_EQ(run(2, "parts"), Outcome::finished);
  EXPECT_EQ(recorder_.evaluated.back().step, Step(5)) << "the last one is evaluated, whatever is due";
  EXPECT_EQ(recorder_.finished.back().early, "train.end_at_step = 5");
  EXPECT_EQ(run(3, "parts"), Outcome::finished);
  EXPECT_EQ(recorder_.steps.size(), 5u) << "there is nothing left to do";
  recipe_.train.end_at_step = 11;
  EXPECT_EQ(run(1, "parts"), Outcome::finished);
  EXPECT_EQ(recorder_.finished.back().step, Step(11));
  recipe_.train.end_at_step = 1000;
  EXPECT_EQ(run(2, "parts"), Outcome::finished);
  EXPECT_EQ(recorder_.finished.back().step, Step(16));
  EXPECT_EQ(recorder_.finished.back().early, "");
  EXPECT_EQ(digest("parts"), whole);
}

TEST_F(BestOfRun, KeepsTheCheckpointOfTheBestEvaluation) {
  recipe_.train.keep_best = true;
  recipe_.train.best_min_delta = kOutOfReach;
  recipe_.checkpoint.every = 3;
  ASSERT_EQ(run(3, "run"), Outcome::finished);
  EXPECT_EQ(tags("run"), (std::map<std::string, Step>{{"best", Step(2)}}));
  EXPECT_TRUE(has("run", 2));
  EXPECT_FALSE(has("run", 3)) << "an old one is deleted";
}

TEST_F(BestOfRun, TagsTheStepWithTheLowestLoss) {
  recipe_.train.keep_best = true;
  ASSERT_EQ(run(2, "run"), Outcome::finished);
  ASSERT_EQ(recorder_.evaluated.size(), 8u);
  const auto best = std::ranges::min_element(recorder_.evaluated, {}, &records::Evaluated::loss);
  EXPECT_EQ(recorder_.evaluated.back().best, best->step);
  EXPECT_EQ(tags("run").at("best"), best->step);
  EXPECT_TRUE(has("run", best->step.value));
}

TEST_F(BestOfRun, GivesTheTagThatAnEarlierStartCouldNotGive) {
  recipe_.train.keep_best = true;
  recipe_.train.best_min_delta = kOutOfReach;
  EXPECT_EQ(run(2, "run", 3), Outcome::stopped);  // after step 4
  ASSERT_EQ(tags("run").at("best"), Step(2));
  std::filesystem::remove_all(folder_ / "run" / "tags");
  EXPECT_EQ(run(1, "run"), Outcome::finished);
  EXPECT_EQ(tags("run").at("best"), Step(2));
  EXPECT_TRUE(has("run", 2));
}

TEST_F(BestOfRun, NeedsSomethingToEvaluateOn) {
  recipe_.data.holdout = 0;
  recipe_.train.keep_best = true;
  EXPECT_THAT(error_of(1, "run"), HasSubstr("train.keep_best compares evaluations"));
  EXPECT_EQ(code_, ExitCode::config);
}
}  // namespace
}  // namespace distdl::train
