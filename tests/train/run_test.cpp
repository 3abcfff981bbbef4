// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fstream>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/checkpoint/slot_memory.hpp>
#include <distdl/data/shapes.hpp>
#include <distdl/train/protection.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/state.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::train {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Remembers what a run told.
struct Recorder final : Observer {
  void on(const Started& event) override { started.push_back(event); }
  void on(const StepDone& event) override { steps.push_back(event); }
  void on(const Evaluated& event) override { evaluated.push_back(event); }
  void on(const Stopped& event) override { stopped.push_back(event); }
  std::vector<Started> started;
  std::vector<StepDone> steps;
  std::vector<Evaluated> evaluated;
  std::vector<Stopped> stopped;
};

class Run : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("run_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    data::make_shapes({.samples = 330, .size = 12, .classes = 4, .seed = 5}, set(), data::Overwrite::refuse);
    recipe_.data.train = set().string();
    recipe_.data.holdout = 50;
    recipe_.model = {.name = "mlp", .hidden = {16}, .batch_norm = true};
    recipe_.parallel = {.microbatches = 12, .microbatch_size = 3};
    recipe_.train.epochs = 2;
    recipe_.checkpoint = {.every = 5, .keep = 2};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path set() const { return folder_ / "shapes.h5"; }

  /// Runs on `ranks` threads in the run folder `name`. If `stop_at` is given, rank `stopper` is asked to stop there.
  Outcome run(int ranks, const std::string& name, int stop_at = -1, int stopper = 0) {
    std::mutex mutex;
    std::optional<Outcome> outcome;
    world::run_threads(ranks, [&](world::World& world) {
      comm::Options options;
      options.timeout_seconds = 20;
      auto communicator = comm::Communicator::connect(world, options);
      Setting setting{folder_ / name, {"local", 0, 0, name}, {}, {}};
      int asked = 0, steps = 0;
      if (world.rank().value == stopper && stop_at >= 0)
        setting.stop_requested = [&]() -> std::optional<std::string> {
          if (++asked > stop_at) return "test";
          return std::nullopt;
        };
      if (crash_at_ >= 0)
        setting.stop_requested = [&]() -> std::optional<std::string> {
          if (++steps > crash_at_) throw std::runtime_error("a crash");
          std::this_thread::sleep_for(std::chrono::milliseconds(60));  // so that no save finds another under way
          return std::nullopt;
        };
      Observer silent;
      auto mine = train::run(recipe_, setting, *communicator, world.rank().value == 0 ? recorder_ : silent);
      communicator->close();
      std::lock_guard lock(mutex);
      EXPECT_TRUE(!outcome || *outcome == mine);
      outcome = mine;
    });
    return *outcome;
  }
  std::string digest(const std::string& name) { return checkpoint::digest(checkpoint::open(folder_ / name)); }
  std::string error_of(int ranks, const std::string& name) {
    try {
      run(ranks, name);
    } catch (const Error& error) {
      code_ = error.exit_code();
      return error.what();
    }
    return "no error";
  }

  /// As if the nodes had been switched off.
  void forget_memory(const std::string& name) {
    checkpoint::Store store(folder_ / name, {});
    checkpoint::Alone alone;
    store.take(alone, {"local", 0, 0, ""});
    for (const auto& slot : checkpoint::slots_of(run_name(store))) EXPECT_TRUE(checkpoint::remove_orphan(slot));
  }

  std::filesystem::path folder_;
  Recipe recipe_;
  Recorder recorder_;
  ExitCode code_ = ExitCode::ok;
  int crash_at_ = -1;  ///< steps of a start after which all ranks throw
};

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

TEST_F(Run, StopsBeforeTheEndOfTheJob) {
  recipe_.train.epochs = 2000;
  recipe_.train.stop_margin_seconds = 1;
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Setting setting{
        folder_ / "timed", {"local", 0, 0, "x"}, std::chrono::system_clock::now() + std::chrono::seconds(3), {}};
    Observer silent;
    EXPECT_EQ(train::run(recipe_, setting, *communicator, world.rank().value == 0 ? recorder_ : silent),
              Outcome::stopped);
    communicator->close();
  });
  ASSERT_EQ(recorder_.stopped.size(), 1u);
  EXPECT_EQ(checkpoint::open(folder_ / "timed").step, recorder_.stopped[0].step);
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
    Observer silent;
    try {
      train::run(mine, setting, *communicator, silent);
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
  options.timeout_seconds = 0.2;
  world::run_threads(2, [&](world::World& world) {
    comm::run_connected(world, options, [](comm::Communicator& communicator) {
      CommunicatorGroup group(communicator, 20);
      if (communicator.rank() == Rank(1)) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      EXPECT_EQ(group.all_gather("x").size(), 2u);
    });
  });
}

TEST_F(Run, RefusesATimeoutThatMakesNoSense) {
  recipe_.checkpoint.timeout_seconds = 0;
  EXPECT_THAT(error_of(2, "timeout"), HasSubstr("checkpoint.timeout_seconds is 0"));
  EXPECT_EQ(code_, ExitCode::config);
}

TEST(Options, ThatMakeNoSenseAreRefused) {
  EXPECT_NO_THROW(check(Options{.evaluate_every = 0, .stop_margin_seconds = 0}));
  for (const Options& options : {Options{.epochs = 0}, Options{.evaluate_every = -1},
                                 Options{.stop_margin_seconds = -1}, Options{.stop_margin_seconds = std::nan("")}})
    EXPECT_THROW(check(options), ConfigError);
}

TEST_F(Run, RefusesAStopMarginThatMakesNoSense) {
  recipe_.train.stop_margin_seconds = -5;
  EXPECT_THAT(error_of(2, "margin"), HasSubstr("train.stop_margin_seconds is -5"));
  EXPECT_EQ(code_, ExitCode::config);
}

TEST_F(Run, ResumesFromTheMemoryOfItsNodeAndGivesTheSameBytes) {
  recipe_.checkpoint.every = 0;
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  recipe_.checkpoint.memory_every = 3;
  crash_at_ = 8;
  EXPECT_THROW(run(2, "crashed"), std::runtime_error);
  crash_at_ = -1;
  EXPECT_EQ(run(3, "crashed"), Outcome::finished);
  ASSERT_EQ(recorder_.started.size(), 3u);
  EXPECT_EQ(recorder_.started[2].resumed_from, Step(6));
  EXPECT_THAT(recorder_.started[2].resumed_source, HasSubstr("2 of memory"));
  EXPECT_EQ(digest("crashed"), digest("whole"));
}

TEST_F(Run, TakesTheNewerOfSnapshotAndCheckpoint) {
  recipe_.checkpoint.every = 7;
  recipe_.checkpoint.disk_every = 3;
  recipe_.checkpoint.disk_folder = (folder_ / "disk").string();
  crash_at_ = 8;
  EXPECT_THROW(run(2, "mixed"), std::runtime_error);
  forget_memory("mixed");  // the disk holds step 6, the file system step 7
  crash_at_ = 6;
  EXPECT_THROW(run(2, "mixed"), std::runtime_error);
  forget_memory("mixed");  // 12 and 7
  crash_at_ = -1;
  EXPECT_EQ(run(1, "mixed"), Outcome::finished);
  ASSERT_EQ(recorder_.started.size(), 3u);
  EXPECT_EQ(recorder_.started[1].resumed_from, Step(7));
  EXPECT_EQ(recorder_.started[1].resumed_source, "the file system");
  EXPECT_EQ(recorder_.started[2].resumed_from, Step(12));
  EXPECT_THAT(recorder_.started[2].resumed_source, HasSubstr("2 of a node's disk"));
}

TEST_F(Run, OfOneRankNeedsNoPartner) {
  recipe_.checkpoint.partner_every = 3;
  recipe_.checkpoint.parity_every = 4;
  EXPECT_EQ(run(1, "lonely"), Outcome::finished);
}

TEST_F(Run, SnapshotsOfARemovedRunAreNotTaken) {
  recipe_.checkpoint.every = 0;
  recipe_.checkpoint.memory_every = 1;
  crash_at_ = 4;
  EXPECT_THROW(run(2, "removed"), std::runtime_error);
  std::filesystem::remove_all(folder_ / "removed");
  crash_at_ = -1;
  EXPECT_EQ(run(2, "removed"), Outcome::finished);
  EXPECT_FALSE(recorder_.started.at(1).resumed_from);
}

TEST_F(Run, RefusesLevelsThatMakeNoSense) {
  recipe_.checkpoint.disk_every = 5;
  EXPECT_THAT(error_of(1, "levels"), HasSubstr("checkpoint.disk_folder names no folder"));
  recipe_.checkpoint.disk_every = 0;
  recipe_.checkpoint.partner_every = 5;
  recipe_.checkpoint.mode = "sync";
  EXPECT_THAT(error_of(1, "levels"), HasSubstr("partner_every"));
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
  EXPECT_THAT(error_of(2, "poisoned"), HasSubstr("infinite or not a number by step 1"));
  EXPECT_EQ(code_, ExitCode::config);
  EXPECT_TRUE(checkpoint::list(folder_ / "poisoned").empty());
}
}  // namespace
}  // namespace distdl::train
