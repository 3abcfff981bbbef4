// SPDX-License-Identifier: Apache-2.0
// Runs that keep snapshots in memory and on local disks beside their checkpoints.
#include <atomic>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"

namespace distdl::train {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Whose folder "disk" lets nobody make a file while it is closed, or ever.
class BadDisk final : public FileSystem {
 public:
  explicit BadDisk(bool full) : full_(full) {}
  int open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_CREAT) && std::string(path).find("/disk/") != std::string::npos) {
      if (full_) return errno = ENOSPC, -1;
      while (!open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return FileSystem::open(path, flags, mode);
  }
  void lift() { open_ = true; }

 private:
  bool full_;
  std::atomic<bool> open_{false};
};

class Snapshots : public Run {
 protected:
  /// How often that was said.
  static std::size_t count(const std::string& text, const std::string& words) {
    std::size_t found = 0;
    for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
    return found;
  }
  /// A run "whole", and another one, "crashed", whose ranks died after step 8, with snapshots of step 8.
  void crash_beside_a_whole_run() {
    EXPECT_EQ(run(2, "whole"), Outcome::finished);
    recipe_.checkpoint.memory_every = 4;
    crash_at_ = 8;
    EXPECT_THROW(run(2, "crashed"), std::runtime_error);
    crash_at_ = -1;
  }
};

TEST_F(Snapshots, ResumesFromTheMemoryOfItsNodeAndGivesTheSameBytes) {
  recipe_.checkpoint.every = 0;
  crash_beside_a_whole_run();
  EXPECT_EQ(run(3, "crashed"), Outcome::finished);
  ASSERT_EQ(recorder_.started.size(), 3u);
  EXPECT_EQ(recorder_.started[2].resumed_from, Step(8));
  EXPECT_THAT(recorder_.started[2].resumed_source, HasSubstr("2 of memory"));
  EXPECT_EQ(digest("crashed"), digest("whole"));
}

TEST_F(Snapshots, OfTheLastStepBecomeItsCheckpoint) {
  recipe_.checkpoint.every = 0;
  crash_beside_a_whole_run();
  recipe_.train.steps = 8;  // as if the ranks had died in the last save
  EXPECT_EQ(run(2, "crashed"), Outcome::finished);
  EXPECT_EQ(checkpoint::open(folder_ / "crashed").step, Step(8));
  EXPECT_TRUE(buffers_of("crashed").empty());
}

TEST_F(Snapshots, TakesTheNewerOfSnapshotAndCheckpoint) {
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

TEST_F(Snapshots, AreLeftAsideWhereThatIsAskedFor) {
  recipe_.checkpoint.memory_every = 1;
  crash_at_ = 8;
  EXPECT_THROW(run(2, "back"), std::runtime_error);
  snapshots_ = checkpoint::SnapshotUse::none;
  testing::internal::CaptureStderr();
  EXPECT_THROW(run(2, "back"), std::runtime_error);  // at step 13
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the run continues from the checkpoint of step 5; the snapshots of step 8 are removed"));
  snapshots_ = checkpoint::SnapshotUse::newest;
  crash_at_ = -1;
  EXPECT_EQ(run(2, "back"), Outcome::finished);
  ASSERT_EQ(recorder_.started.size(), 3u);
  EXPECT_EQ(recorder_.started[1].resumed_from, Step(5));
  EXPECT_EQ(recorder_.started[2].resumed_from, Step(13)) << "its own snapshots";
  EXPECT_EQ(run(2, "whole"), Outcome::finished);
  EXPECT_EQ(digest("back"), digest("whole"));
}

TEST_F(Snapshots, ThatWereLeftAsideDoNotComeBackThoughThatStartDiedAtOnce) {
  recipe_.checkpoint.memory_every = 1;
  crash_at_ = 8;
  EXPECT_THROW(run(2, "once"), std::runtime_error);
  std::vector<checkpoint::SnapshotMemory>
      away;  // nobody removes what is in use: as on nodes that the next start has not
  for (const auto& buffer : buffers_of("once")) away.push_back(checkpoint::SnapshotMemory::open(buffer));
  ASSERT_FALSE(away.empty());
  snapshots_ = checkpoint::SnapshotUse::none;
  crash_at_ = 0;  // before its first save
  EXPECT_THROW(run(2, "once"), std::runtime_error);
  EXPECT_FALSE(buffers_of("once").empty());
  away.clear();
  snapshots_ = checkpoint::SnapshotUse::newest;
  crash_at_ = -1;
  EXPECT_EQ(run(2, "once"), Outcome::finished);
  ASSERT_EQ(recorder_.started.size(), 3u);
  for (std::size_t start : {1, 2}) EXPECT_EQ(recorder_.started[start].resumed_from, Step(5)) << start;
  EXPECT_EQ(recorder_.started[2].resumed_source, "the file system");
}

TEST_F(Snapshots, ThatTurnOutUselessGiveWayToACheckpoint) {
  crash_beside_a_whole_run();
  change_snapshots("crashed", [](checkpoint::State& state) { state["position"] = "many"; });
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(2, "crashed"), Outcome::finished);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "the snapshots of step 8 cannot be used"), 1u) << said;
  EXPECT_EQ(recorder_.started.at(2).resumed_from, Step(5));
  EXPECT_EQ(digest("crashed"), digest("whole"));
}

TEST_F(Snapshots, ThatTurnOutUselessLeaveNothingInAFreshStart) {
  recipe_.checkpoint.every = 0;
  crash_beside_a_whole_run();
  change_snapshots("crashed", [](checkpoint::State& state) { state["position"] = "many"; });
  EXPECT_EQ(run(2, "crashed"), Outcome::finished);
  EXPECT_FALSE(recorder_.started.at(2).resumed_from);
  EXPECT_EQ(digest("crashed"), digest("whole"));
}

TEST_F(Snapshots, ThatFitAreTakenByAPartialResumeToo) {
  recipe_.checkpoint.partial = true;
  crash_beside_a_whole_run();
  EXPECT_EQ(run(3, "crashed"), Outcome::finished);
  EXPECT_EQ(recorder_.started.at(2).resumed_from, Step(8));
  EXPECT_EQ(digest("crashed"), digest("whole"));
}

TEST_F(Snapshots, ThatFitInPartAreLeftAsideByAPartialResume) {
  for (bool norm : {false, true}) {
    const std::string name = norm ? "less" : "more";
    recorder_.started.clear();
    recipe_.checkpoint.memory_every = 4;
    recipe_.model.batch_norm = norm;
    crash_at_ = 8;
    EXPECT_THROW(run(2, name), std::runtime_error);
    recipe_.model.batch_norm = !norm;
    crash_at_ = -1;
    EXPECT_THAT(error_of(2, name), HasSubstr("fc1_norm"));
    EXPECT_EQ(code_, ExitCode::incompatible);
    recipe_.checkpoint.partial = true;
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(2, name), Outcome::finished);
    EXPECT_THAT(
        testing::internal::GetCapturedStderr(),
        AllOf(HasSubstr("the snapshots of step 8 cannot be used: "),
              HasSubstr("the run continues from the checkpoint of step 5; the snapshots of step 8 are removed")));
    EXPECT_EQ(recorder_.started.at(1).resumed_from, Step(5));
    recipe_.checkpoint.partial = false;
  }
}

TEST_F(Snapshots, ThatFitInPartAreRefusedWhereNoCheckpointIs) {
  recipe_.checkpoint = {.every = 0, .partial = true, .memory_every = 3};
  crash_at_ = 8;
  EXPECT_THROW(run(2, "alone"), std::runtime_error);
  crash_at_ = -1;
  recipe_.model.hidden = {17};
  EXPECT_THAT(error_of(2, "alone"), AllOf(HasSubstr("fc1.weight"), HasSubstr("--no-snapshots")));
  EXPECT_EQ(code_, ExitCode::incompatible);
  EXPECT_FALSE(buffers_of("alone").empty());
  forget_memory("alone");
}

TEST_F(Snapshots, UnderWayOnlyPutOffACheckpoint) {
  recipe_.checkpoint = {.every = 5, .disk_every = 2, .disk_folder = (folder_ / "disk").string()};
  BadDisk slow(false);
  files_ = &slow;
  awaits_saves_ = false;
  crash_at_ = 1000;  // never, but steps take their time
  recorder_.after_step = [&](Step step) {
    if (step == Step(6)) slow.lift();
  };
  ASSERT_EQ(run(2, "put_off"), Outcome::finished);
  ASSERT_FALSE(recorder_.saved.empty());
  EXPECT_GE(recorder_.saved[0].step, Step(6));
  EXPECT_LT(recorder_.saved[0].step, Step(10));
  std::vector<Step> skipped;
  for (const auto& event : recorder_.skipped) skipped.push_back(event.step);
  ASSERT_GE(skipped.size(), 2u);
  EXPECT_EQ(skipped[0], Step(4));
  EXPECT_EQ(skipped[1], Step(5));
  EXPECT_TRUE(skipped.size() == 2 || skipped[2] >= Step(8)) << "the checkpoint of step 5 was told as skipped again";
}

TEST_F(Snapshots, ThatAreNotKeptAreToldAsSuch) {
  recipe_.checkpoint = {.every = 6, .disk_every = 3, .disk_folder = (folder_ / "disk").string()};
  BadDisk full(true);
  files_ = &full;
  crash_at_ = 1000;  // never, but steps take their time
  ASSERT_EQ(run(2, "full"), Outcome::finished);
  EXPECT_TRUE(recorder_.kept.empty());
  std::vector<Step> unkept;
  for (const auto& event : recorder_.unkept) {
    unkept.push_back(event.step);
    EXPECT_THAT(event.reason, HasSubstr("No space left on device"));
  }
  EXPECT_EQ(unkept, (std::vector<Step>{Step(3), Step(6), Step(9), Step(12), Step(15)}));
  ASSERT_EQ(recorder_.saved.size(), 3u);  // those at the same time are none the worse
}

TEST_F(Snapshots, OfAStepThatIsLeftOutAreNotTaken) {
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  recipe_.checkpoint.memory_every = 1;
  crash_at_ = 8;
  EXPECT_THROW(run(2, "below"), std::runtime_error);
  resume_below_ = Step(8);
  EXPECT_THROW(run(2, "below"), std::runtime_error);  // at step 13
  // The checkpoint of step 5, which a slow machine writes a little later.
  EXPECT_GE(recorder_.started.at(2).resumed_from, Step(5));
  EXPECT_LT(recorder_.started.at(2).resumed_from, Step(8));
  resume_below_ = Step(14);
  crash_at_ = -1;
  EXPECT_EQ(run(2, "below"), Outcome::finished);
  EXPECT_GE(recorder_.started.at(3).resumed_from, Step(10));
  EXPECT_LT(recorder_.started.at(3).resumed_from, Step(14));
  EXPECT_EQ(digest("below"), digest("whole"));
}

TEST_F(Snapshots, ThatTheJobFileDoesNotAskForAnyMoreGoWithAWord) {
  recipe_.checkpoint.memory_every = 1;
  crash_at_ = 8;
  EXPECT_THROW(run(2, "without"), std::runtime_error);
  recipe_.checkpoint.memory_every = 0;
  crash_at_ = -1;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(2, "without"), Outcome::finished);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "the run continues from step 5; the snapshots of step 8 in the nodes' memory are removed"), 1u)
      << said;
  EXPECT_EQ(recorder_.started.at(1).resumed_from, Step(5));
  EXPECT_TRUE(buffers_of("without").empty());
}

TEST_F(Snapshots, OfOneRankNeedsNoPartner) {
  recipe_.checkpoint.partner_every = 3;
  recipe_.checkpoint.parity_every = 4;
  EXPECT_EQ(run(1, "lonely"), Outcome::finished);
}

TEST_F(Snapshots, OfARemovedRunAreNotTaken) {
  recipe_.checkpoint.every = 0;
  recipe_.checkpoint.memory_every = 1;
  crash_at_ = 4;
  EXPECT_THROW(run(2, "removed"), std::runtime_error);
  const auto left = buffers_of("removed");
  std::filesystem::remove_all(folder_ / "removed");
  crash_at_ = -1;
  EXPECT_EQ(run(2, "removed"), Outcome::finished);
  EXPECT_FALSE(recorder_.started.at(1).resumed_from);
  for (const auto& buffer : left) EXPECT_TRUE(checkpoint::remove_orphan(buffer));
}

TEST_F(Snapshots, RefusesLevelsThatMakeNoSense) {
  recipe_.checkpoint.disk_every = 5;
  EXPECT_THAT(error_of(1, "levels"), HasSubstr("checkpoint.disk_folder names no folder"));
  recipe_.checkpoint.disk_every = 0;
  recipe_.checkpoint.partner_every = 5;
  recipe_.checkpoint.mode = "sync";
  EXPECT_THAT(error_of(1, "levels"), HasSubstr("partner_every"));
}
}  // namespace
}  // namespace distdl::train
