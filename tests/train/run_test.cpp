// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fstream>
#include <future>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pace.hpp"
#include "tests/train/run_fixture.hpp"
#include <distdl/model/models.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(Run, GivesTheSameBytesForEveryNumberOfRanks) {
  ASSERT_EQ(run(1, "on1"), Outcome::finished);
  for (int ranks : {2, 3, 4, 6}) {
    auto name = "on" + std::to_string(ranks);
    ASSERT_EQ(run(ranks, name), Outcome::finished);
    EXPECT_EQ(digest(name), digest("on1")) << ranks << " ranks";
  }
  for (std::size_t i = 2; i < recorder_.evaluated.size(); ++i) {
    EXPECT_EQ(recorder_.evaluated[i].loss, recorder_.evaluated[i - 2].loss);
    EXPECT_EQ(recorder_.evaluated[i].accuracy, recorder_.evaluated[i - 2].accuracy);
  }
}

TEST_F(Run, GivesTheSameBytesWhenStoppedAndResumedOnAnotherNumberOfRanks) {
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  EXPECT_EQ(run(3, "cut", 4, 2), Outcome::stopped);
  EXPECT_EQ(run(1, "cut", 3), Outcome::stopped);
  EXPECT_EQ(run(4, "cut"), Outcome::finished);
  EXPECT_EQ(digest("cut"), digest("whole"));
  ASSERT_EQ(recorder_.started.size(), 4u);
  EXPECT_FALSE(recorder_.started[1].resumed_from);
  EXPECT_EQ(recorder_.started[2].resumed_from, Step(5));
  EXPECT_EQ(recorder_.started[3].resumed_from, Step(9));
  ASSERT_EQ(recorder_.stopped.size(), 2u);
  EXPECT_EQ(recorder_.stopped[0].reason, "another rank was asked to stop");
  EXPECT_EQ(recorder_.stopped[1].reason, "test");
}

TEST_F(Run, CountsStepsByEpochsAndSamples) {
  run(2, "count");
  EXPECT_EQ(recorder_.started[0].total_steps, Step(16));  // 2 * 280 samples, 36 a step
  EXPECT_EQ(recorder_.steps.size(), 16u);
  EXPECT_EQ(recorder_.evaluated.size(), 2u);
  EXPECT_EQ(recorder_.evaluated[0].samples, 50);
}

TEST_F(Run, IsAsLongAndEvaluatedAsOftenAsStepsSay) {
  recipe_.train.steps = 21;
  recipe_.train.evaluate_every = 2;
  recipe_.train.evaluate_every_steps = 5;
  const auto evaluated = [&] {
    std::vector<std::pair<std::int64_t, double>> all;
    for (const auto& each : recorder_.evaluated) all.emplace_back(each.step.value, *each.loss);
    return all;
  };
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  EXPECT_EQ(recorder_.started[0].total_steps, Step(21));
  const auto whole = evaluated();
  std::vector<std::int64_t> steps;
  for (const auto& [step, loss] : whole) steps.push_back(step);
  EXPECT_THAT(steps, ::testing::ElementsAre(5, 10, 15, 16, 20, 21)) << "16: the end of the second epoch";
  recorder_ = {};
  EXPECT_EQ(run(3, "cut", 4), Outcome::stopped);  // after step 5, which the next start evaluates
  EXPECT_EQ(run(1, "cut", 3), Outcome::stopped);
  EXPECT_EQ(run(2, "cut"), Outcome::finished);
  EXPECT_EQ(evaluated(), whole);
  EXPECT_EQ(digest("cut"), digest("whole"));
}

TEST_F(Run, AStopAtTheEndOfAnEpochOnlyPutsOffItsEvaluation) {
  EXPECT_EQ(run(2, "late", 7), Outcome::stopped);  // step 8 ends the first epoch
  EXPECT_TRUE(recorder_.evaluated.empty());
  EXPECT_EQ(run(2, "late"), Outcome::finished);
  ASSERT_EQ(recorder_.evaluated.size(), 2u);
  EXPECT_EQ(recorder_.evaluated[0].step, Step(8));
  run(2, "whole");
  EXPECT_EQ(recorder_.evaluated[0].loss, recorder_.evaluated[2].loss);
}

TEST_F(Run, ResumingAFinishedRunChangesNothing) {
  run(2, "done");
  auto before = digest("done");
  EXPECT_EQ(run(3, "done"), Outcome::finished);
  EXPECT_EQ(digest("done"), before);
  EXPECT_EQ(recorder_.steps.size(), 16u);
}

TEST_F(Run, ResumesBelowAStepAsLongAsThereIsACheckpoint) {
  recipe_.checkpoint.mode = "sync";
  run(2, "whole");
  run(2, "back", 10);  // stopped after step 11, with checkpoints of 10 and 11
  resume_below_ = Step(11);
  run(2, "back", 1);  // two steps further; 11 and 12 stay
  EXPECT_EQ(recorder_.started.at(2).resumed_from, Step(10));
  run(2, "back");
  EXPECT_EQ(recorder_.started.at(3).resumed_from, Step(12)) << "rather than afresh";
  EXPECT_EQ(digest("back"), digest("whole"));
}

TEST_F(Run, CountsTheTimeOfASaveOnce) {
  recipe_.checkpoint.mode = "sync";
  run(2, "sync");
  recipe_.checkpoint.mode = "async";
  run(2, "async");
  ASSERT_GE(recorder_.saved.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_DOUBLE_EQ(recorder_.saved[i].seconds, recorder_.saved[i].stall_seconds.value()) << i;
  const auto& last = recorder_.saved.back();
  EXPECT_EQ(last.step, Step(16));
  EXPECT_LE(last.seconds, last.stall_seconds) << "training waited for all of it";
  EXPECT_GT(last.seconds, last.stall_seconds.value() / 2);
}

TEST_F(Run, RefusesMoreRanksThanMicrobatches) {
  recipe_.parallel.microbatches = 2;
  EXPECT_THAT(error_of(3, "many"), HasSubstr("3 ranks, but only 2 microbatches"));
  EXPECT_EQ(code_, ExitCode::config);
}

TEST_F(Run, RefusesAMissingDataSet) {
  recipe_.data.train = (folder_ / "nothing.h5").string();
  EXPECT_THAT(error_of(2, "missing"), HasSubstr("nothing.h5"));
  EXPECT_EQ(code_, ExitCode::incomplete);
}

TEST_F(Run, WhatOneRankCannotDoEndsAllWithTheSameError) {
  std::mutex mutex;
  std::vector<std::string> messages;
  world::run_threads(3, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Recipe mine = recipe_;
    if (world.rank() == Rank(1)) mine.data.train = (folder_ / "only-here.h5").string();
    Setting setting{folder_ / "one", {"local", 0, 0, "one"}, {}, {}};
    Host host;
    records::Observer silent;
    try {
      train::run(mine, setting, host, *communicator, silent);
    } catch (const Error& error) {
      std::lock_guard lock(mutex);
      EXPECT_EQ(error.exit_code(), ExitCode::incomplete);
      messages.emplace_back(error.what());
    }
    communicator->close();
  });
  ASSERT_EQ(messages.size(), 3u);
  for (const auto& message : messages) EXPECT_THAT(message, AllOf(HasSubstr("rank 1 ("), HasSubstr("only-here.h5")));
}

TEST_F(Run, ARankThatIsBusyWithFilesIsNotLost) {
  comm::Options options;
  options.timeout_seconds = paced(0.2);
  world::run_threads(2, [&](world::World& world) {
    comm::run_connected(world, options, [](comm::Communicator& communicator) {
      groups::CommunicatorGroup group(communicator, paced(20.0));
      if (communicator.rank() == Rank(1)) std::this_thread::sleep_for(paced(Milliseconds(1200)));
      EXPECT_EQ(group.all_gather("x").size(), 2u);
    });
  });
}

TEST_F(Run, ARankThatHangsBeforeASaveIsLostAsSoonAsInAStep) {
  comm::Options options;
  options.timeout_seconds = paced(3);
  recipe_.checkpoint.timeout_seconds = 600;
  std::promise<void> missed;
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, options);
    Setting setting{folder_ / "hangs", {"local", 0, 0, "hangs"}, {}, {}};
    Host host;
    Recorder recorder;
    if (world.rank() == Rank(1))
      recorder.after_step = [&](Step step) {
        if (step != Step(5)) return;
        EXPECT_EQ(missed.get_future().wait_for(paced(Milliseconds(20'000))), std::future_status::ready)
            << "rank 0 waits longer than in a step";
      };
    try {
      train::run(recipe_, setting, host, *communicator, recorder);
      ADD_FAILURE() << "rank " << world.rank().value << " did not miss rank 1";
    } catch (const comm::PeerLost& lost) {
      EXPECT_EQ(lost.rank(), Rank(1)) << lost.what();
    }
    if (world.rank() == Rank(0)) missed.set_value();
  });
}

TEST_F(Run, RefusesATimeoutThatMakesNoSense) {
  recipe_.checkpoint.timeout_seconds = 0;
  EXPECT_THAT(error_of(2, "timeout"), HasSubstr("checkpoint.timeout_seconds is 0"));
  EXPECT_EQ(code_, ExitCode::config);
}

TEST(Options, ThatMakeNoSenseAreRefused) {
  EXPECT_NO_THROW(check(Options{.evaluate_every = 0, .stop_margin_seconds = 0}));
  for (const Options& options :
       {Options{.epochs = 0}, Options{.steps = -1}, Options{.evaluate_every = -1}, Options{.evaluate_every_steps = -1},
        Options{.stop_margin_seconds = -1}, Options{.stop_margin_seconds = std::nan("")}})
    EXPECT_THROW(check(options), ConfigError);
}

TEST_F(Run, RefusesAStopMarginThatMakesNoSense) {
  recipe_.train.stop_margin_seconds = -5;
  EXPECT_THAT(error_of(2, "margin"), HasSubstr("train.stop_margin_seconds is -5"));
  EXPECT_EQ(code_, ExitCode::config);
}

TEST_F(Run, RefusesACheckpointOfAnotherModel) {
  run(2, "other");
  recipe_.model.hidden = {17};
  auto message = error_of(2, "other");
  EXPECT_THAT(message, HasSubstr("fc1.weight"));
  EXPECT_EQ(code_, ExitCode::incompatible);
}

TEST_F(Run, RefusesACheckpointOfAnotherDataSet) {
  run(2, "set");
  recipe_.data.holdout = 60;
  EXPECT_THAT(error_of(2, "set"), HasSubstr("data.samples"));
  EXPECT_EQ(code_, ExitCode::incompatible);
}

TEST_F(Run, RefusesADataSetOfTheSameShapeWithOtherSamples) {
  run(2, "digest");
  data::make_shapes({.samples = 330, .size = 12, .classes = 4, .seed = 6}, set(), Overwrite::replace);
  EXPECT_THAT(error_of(2, "digest"), HasSubstr("data.digest"));
  EXPECT_EQ(code_, ExitCode::incompatible);
  recipe_.checkpoint.partial = true;
  recipe_.data.crop = 1;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(2, "digest"), Outcome::finished);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("resuming with data.digest"), HasSubstr("resuming with data.crop = 1")));
}

TEST_F(Run, RefusesADataSetThatIsAnotherOneOnAnotherNode) {
  const auto other = folder_ / "other.h5";
  data::make_shapes({.samples = 330, .size = 12, .classes = 4, .seed = 6}, other, Overwrite::refuse);
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Recipe mine = recipe_;
    if (world.rank() == Rank(1)) mine.data.train = other.string();
    Host host;
    records::Observer silent;
    try {
      train::run(mine, {folder_ / "two", {"local", 0, 0, "two"}, {}, {}}, host, *communicator, silent);
      ADD_FAILURE() << "no error";
    } catch (const StorageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the same file on all nodes"));
    }
    communicator->close();
  });
}

TEST_F(Run, RefusesAFolderItCannotWrite) {
  std::ofstream(folder_ / "file") << "not a folder";
  EXPECT_THAT(error_of(2, "file"), HasSubstr("file"));
  EXPECT_EQ(code_, ExitCode::storage);
}

TEST_F(Run, StopsWithAnErrorWhenTheLossIsNotFinite) {
  recipe_.optim.learning_rate = 1e30;
  recipe_.model.batch_norm = false;
  EXPECT_THAT(error_of(2, "wild"), HasSubstr("lower optim.learning_rate"));
  EXPECT_EQ(code_, ExitCode::config);
}

TEST_F(Run, NeverSavesWhatIsNotFinite) {
  // One step: its loss is still that of the start values, and what it makes of them is infinite.
  recipe_.optim.learning_rate = 1e300;
  recipe_.optim.schedule = "constant";
  recipe_.model.batch_norm = false;
  recipe_.checkpoint.every = 1;
  EXPECT_THAT(error_of(2, "poisoned"), HasSubstr("infinite or not a number at step 1"));
  EXPECT_EQ(code_, ExitCode::config);
  EXPECT_TRUE(checkpoint::list(folder_ / "poisoned").empty());
}

TEST_F(Run, ThatDivergesInItsLastStepHasFailed) {
  // Its loss is that of the start values, and what it makes of them is finite, but of no use.
  recipe_.optim.learning_rate = 1e20;
  recipe_.optim.schedule = "constant";
  recipe_.model.batch_norm = false;
  recipe_.train.steps = 1;
  EXPECT_THAT(error_of(2, "last"), AllOf(HasSubstr("the validation loss became"), HasSubstr("at step 1")));
  EXPECT_EQ(code_, ExitCode::config);
  EXPECT_TRUE(checkpoint::list(folder_ / "last").empty());
}

TEST_F(Run, ThatCannotGoOnFromItsCheckpointSaysWhichFolderToRemove) {
  recipe_.optim.learning_rate = 1e20;
  recipe_.optim.schedule = "constant";
  recipe_.model.batch_norm = false;
  recipe_.checkpoint.every = 1;
  recipe_.train.steps = 3;
  for (int start = 0; start < 2; ++start)  // the first saves step 1, whose loss nobody knows yet
    EXPECT_THAT(error_of(2, "bad"), HasSubstr("remove the folder \"" + (folder_ / "bad/step-000000000001").string()));
  std::filesystem::remove_all(folder_ / "bad/step-000000000001");
  recipe_.optim.learning_rate = 0.01;
  EXPECT_EQ(run(2, "bad"), Outcome::finished);
}

TEST_F(Run, WithoutValidationDataNothingIsSaidOfAccuracy) {
  recipe_.data.holdout = 0;
  run(2, "not-evaluated");
  ASSERT_EQ(recorder_.finished.size(), 1u);
  EXPECT_FALSE(recorder_.finished[0].accuracy);
  EXPECT_FALSE(recorder_.finished[0].loss);
}

TEST_F(Run, CountsOfStepsAreNumbers) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(steps_of(recipe_, 280), Step(16));
  recipe_.train.epochs = kMost;
  EXPECT_THROW(steps_of(recipe_, 280), ConfigError);
  recipe_.train.steps = kMost;
  EXPECT_THROW(steps_of(recipe_, 280), ConfigError);
  recipe_.train.steps = kMost / 36 - 20;
  EXPECT_NO_THROW(steps_of(recipe_, 280));
  recipe_.parallel.microbatch_size = kMost;
  EXPECT_THROW(steps_of(recipe_, 280), ConfigError);
  EXPECT_THROW(check(recipe_), ConfigError);
}

TEST_F(Run, AModelThatDoesNotFitIsRefusedBeforeItIsMade) {
  const auto fits = [&](std::uint64_t memory, int ranks = 1) {
    const auto model = model::describe_model(recipe_.model, {1, 12, 12}, 4);
    tensors_that_fit(model, recipe_.parallel, recipe_.optim, {ranks, {ranks}}, memory);
  };
  EXPECT_NO_THROW(fits(1 << 20));
  EXPECT_THROW(fits(1 << 14), ConfigError);
  EXPECT_NO_THROW(fits(50'000, 1));
  EXPECT_THROW(fits(50'000, 2), ConfigError) << "that share a machine";
  const auto model = model::describe_model(recipe_.model, {1, 12, 12}, 4);
  const auto fits_process = [&](const ProcessLimits& limits, int ranks = 1) {
    check_memory(model, model::tensors_of(model), recipe_.parallel, recipe_.optim, {ranks, {ranks}}, 1 << 20, limits);
  };
  EXPECT_NO_THROW(fits_process({50'000, 50'000}));
  EXPECT_THROW(fits_process({1 << 14, 50'000}), ConfigError);
  EXPECT_THROW(fits_process({50'000, 25'000}), ConfigError);
  EXPECT_NO_THROW(fits_process({50'000, 25'000}, 2)) << "gradients lie in shared memory, which is no data";
  recipe_.parallel.microbatch_size = 1'000'000'000'000;
  EXPECT_THROW(fits(memory_of_node()), ConfigError);
  EXPECT_THAT(error_of(2, "large"), HasSubstr("needs at least"));
}
}  // namespace
}  // namespace distdl::train
