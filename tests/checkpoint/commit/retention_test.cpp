// SPDX-License-Identifier: Apache-2.0
// Which checkpoints stay, and how the others go while training goes on.
#include <atomic>
#include <cerrno>
#include <fstream>
#include <set>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/commit/collector.hpp>
#include <distdl/checkpoint/commit/history.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using Fault = FailingFileSystem::Fault;
using Steps = std::set<std::int64_t>;

/// A run that saves these steps and ends.
void run_saves(const fs::path& root, const std::vector<std::int64_t>& steps, Options options = {.keep = 2},
               FileSystem& files = real_file_system()) {
  SingleProcessGroup alone;
  Store store(root, options, files);
  store.take(alone, owner_called("test"));
  for (std::int64_t step : steps)
    store.save(alone, Step(step), share_of(make_sample(static_cast<std::uint64_t>(step)), 0, 1).slices, sample_state());
}

Fate last_fate(const fs::path& root, std::int64_t step) {
  auto events = read_history(real_file_system(), root);
  for (auto last = events.rbegin(); last != events.rend(); ++last)
    if (last->step == Step(step)) return last->fate;
  throw std::runtime_error("no such step in the history");
}

TEST(Retention, KeepsTheNewestAndDeletesTheRest) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20, 30, 40});
  EXPECT_EQ(steps_in(root.path()), (Steps{30, 40}));
  EXPECT_TRUE(entries_with_prefix(root.path(), kTrashPrefix).empty());
  EXPECT_EQ(last_fate(root.path(), 20), Fate::collected);
  EXPECT_EQ(last_fate(root.path(), 40), Fate::saved);
  EXPECT_THROW(Store(root.path(), {.keep = 1}), ConfigError);
  EXPECT_THROW(Store(root.path(), {.keep_every = -1}), ConfigError);
}

TEST(Retention, KeepsTheFirstOfEachStretch) {
  TemporaryFolder root;
  run_saves(root.path(), {40, 90, 130, 180, 200, 310, 320, 390, 410}, {.keep = 2, .keep_every = 100});
  EXPECT_EQ(steps_in(root.path()), (Steps{130, 200, 310, 390, 410}));
}

TEST(Retention, DamagedOnesDoNotCountAsKept) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20});
  fs::resize_file(root.path() / "step-000000000020/node0000.h5", 100);
  run_saves(root.path(), {30});
  EXPECT_TRUE(steps_in(root.path()).contains(10));
}

TEST(Retention, NeverDeletesWhatItJustSaved) {
  TemporaryFolder root;
  run_saves(root.path(), {100, 200, 300});
  run_saves(root.path(), {50});
  EXPECT_EQ(steps_in(root.path()), (Steps{50, 200, 300}));
}

TEST(Retention, TheNewestAuditedOneStays) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  {
    Store store(root.path(), {.keep = 2});
    store.take(alone, owner_called("test"));
    for (std::int64_t step : {10, 20, 30, 40, 50, 60}) {
      store.save(alone, Step(step), share_of(make_sample(static_cast<std::uint64_t>(step)), 0, 1).slices,
                 sample_state());
      if (step == 30) store.keep_newest_until(Step(25));
      if (step == 50) store.keep_newest_until(Step(45));
    }
  }
  EXPECT_EQ(steps_in(root.path()), (Steps{40, 50, 60})) << "20 went when 40 was audited";
}

TEST(Retention, ToolsKeepTheNewestAuditedOneToo) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  FileSystem& files = real_file_system();
  {
    Store store(root.path(), {.keep = 4});
    store.take(alone, owner_called("test"));
    for (std::int64_t step : {10, 20, 30, 40}) {
      State state = sample_state();
      state[kAuditedState] = "15";
      store.save(alone, Step(step), share_of(make_sample(static_cast<std::uint64_t>(step)), 0, 1).slices, state);
    }
  }
  std::ofstream(root.path() / step_folder_name(Step(40)) / kManifestName) << "damaged";
  Rule rule = last_rule(files, root.path());
  EXPECT_EQ(rule.keep, 4);
  EXPECT_EQ(rule.audited, Step(15));
  rule.keep = 2;
  for (const auto& decision :
       decide_retention(files, root.path(), rule, {}, [](Step, const fs::path&) { return true; }))
    EXPECT_EQ(decision.stays, decision.step != Step(20)) << decision.step.value;
  run_saves(root.path(), {50});
  EXPECT_FALSE(last_rule(files, root.path()).audited) << "the last run has no audits";
}

TEST(Retention, SetsAsideWhatCameAfterAStep) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20, 30}, {.keep = 3});
  SingleProcessGroup alone;
  Store store(root.path(), {.keep = 3});
  store.take(alone, owner_called("test"));
  EXPECT_EQ(store.set_aside_after(alone, Step(15), "corruption"), (std::vector<Step>{Step(20), Step(30)}));
  EXPECT_EQ(steps_in(root.path()), (Steps{10}));
  EXPECT_EQ(last_fate(root.path(), 30), Fate::quarantined);
  EXPECT_EQ(owner_of(real_file_system(), root.path())->snapshots_since, store.owner().start + 1);
  EXPECT_EQ(store.set_aside_after(alone, {}, "corruption"), (std::vector<Step>{Step(10)}));
}

TEST(Retention, TaggedOnesStayUntilTheTagIsRemoved) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20});
  FileSystem& files = real_file_system();
  add_tag(files, root.path(), Step(10), "best", false);
  run_saves(root.path(), {30, 40});
  EXPECT_EQ(steps_in(root.path()), (Steps{10, 30, 40}));
  remove_tag(files, root.path(), Step(10), "best");
  run_saves(root.path(), {50});
  EXPECT_EQ(steps_in(root.path()), (Steps{40, 50}));
}

TEST(Retention, NothingGoesWhenATagCannotBeRead) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20});
  fs::create_directory(root.path() / kTagsName);
  std::ofstream(root.path() / kTagsName / "best") << "step-12";
  run_saves(root.path(), {30, 40});
  EXPECT_EQ(steps_in(root.path()), (Steps{10, 20, 30, 40}));
  EXPECT_THROW(read_tags(real_file_system(), root.path()), StorageError);
}

TEST(Tags, NamesAreCheckedAndMoveOnlyWhenAsked) {
  TemporaryFolder root;
  FileSystem& files = real_file_system();
  run_saves(root.path(), {10, 20});
  for (const char* bad : {"", ".hidden", "a/b", "../x", "1st", "a b", "x\n"})
    EXPECT_THROW(add_tag(files, root.path(), Step(10), bad, false), UsageError) << bad;
  EXPECT_THROW(add_tag(files, root.path(), Step(11), "best", false), StorageError);
  add_tag(files, root.path(), Step(10), "best", false);
  add_tag(files, root.path(), Step(10), "best", false);
  EXPECT_THROW(add_tag(files, root.path(), Step(20), "best", false), UsageError);
  EXPECT_THROW(remove_tag(files, root.path(), Step(20), "best"), UsageError);
  add_tag(files, root.path(), Step(20), "best", true);
  add_tag(files, root.path(), Step(20), "release-1.0", false);
  EXPECT_EQ(names_of(read_tags(files, root.path()), Step(20)), (std::vector<std::string>{"best", "release-1.0"}));
}

// Whenever the tag comes, a checkpoint that it was given to is there afterwards.
TEST(Tags, MayComeAtAnyOperationOfACollection) {
  int given = 0, refused = 0;
  for (int operation = 0;; ++operation) {
    SCOPED_TRACE(operation);
    TemporaryFolder root;
    run_saves(root.path(), {10, 20});
    bool tagged = false;
    FailingFileSystem files({.fault = Fault::call, .at = operation, .call = [&] {
                               try {
                                 add_tag(real_file_system(), root.path(), Step(10), "best", false);
                                 tagged = true;
                                 ++given;
                               } catch (const StorageError&) {
                                 ++refused;
                               }
                             }});
    run_saves(root.path(), {30}, {.keep = 2}, files);
    if (!files.struck()) break;
    EXPECT_EQ(steps_in(root.path()).contains(10), tagged);
    EXPECT_EQ(read_tags(real_file_system(), root.path()).contains("best"), tagged);
  }
  EXPECT_GT(given, 20);
  EXPECT_GT(refused, 0);
}

/// A disk on which deleting takes long.
class SlowDeletion final : public FileSystem {
 public:
  int unlink(const char* path) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return FileSystem::unlink(path);
  }
};

/// A disk on which deleting what has been put aside takes until it is told to go on.
class HeldDeletion final : public FileSystem {
 public:
  int unlink(const char* path) override {
    if (std::string_view(path).find(kTrashPrefix) != std::string_view::npos) {
      begins_.open();
      goes_on_.wait();
    }
    return FileSystem::unlink(path);
  }
  void wait_until_it_begins() const { begins_.wait(); }
  void go_on() { goes_on_.open(); }

 private:
  struct Gate {
    void open() {
      is_open = true;
      is_open.notify_all();
    }
    void wait() const { is_open.wait(false); }
    std::atomic<bool> is_open = false;
  };
  Gate begins_, goes_on_;
};

TEST(Retention, NobodyWaitsForADeletion) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20});
  HeldDeletion files;
  SingleProcessGroup alone;
  Store store(root.path(), {.keep = 2}, files);
  store.take(alone, owner_called("test"));
  store.save(alone, Step(30), share_of(make_sample(3), 0, 1).slices, sample_state());
  files.wait_until_it_begins();  // of checkpoint 10
  store.save(alone, Step(40), share_of(make_sample(4), 0, 1).slices, sample_state());
  EXPECT_FALSE(entries_with_prefix(root.path(), kTrashPrefix).empty());
  files.go_on();
  { Store(std::move(store)); }  // its end waits
  EXPECT_EQ(steps_in(root.path()), (Steps{30, 40}));
  EXPECT_TRUE(entries_with_prefix(root.path(), kTrashPrefix).empty());
}

TEST(Retention, NothingIsDeletedAfterTheCollectorWasStopped) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20, 30, 40, 50}, {.keep = 5});
  SlowDeletion files;
  Collector collector(files, root.path(), {.keep = 2});
  collector.saved(Step(50));
  EXPECT_FALSE(collector.settle(std::chrono::milliseconds(1)));
  collector.stop();
  const Steps left = steps_in(root.path());
  EXPECT_TRUE(left.contains(30)) << "it is the last of three that go";
  collector.saved(Step(50));
  EXPECT_TRUE(collector.settle(std::chrono::seconds(5)));
  EXPECT_EQ(steps_in(root.path()), left);
  for (std::int64_t step : left) EXPECT_TRUE(verify(root.path() / step_folder_name(Step(step))).empty()) << step;
}

TEST(Retention, WhereRoomIsShortTheOneThatTheRunGoesOnFromStays) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20, 30, 40}, {.keep = 4});
  Collector collector(real_file_system(), root.path(), {.keep = 4});
  const auto any = [](std::uint64_t more) { return more > 0; };
  collector.verified(Step(20));
  EXPECT_EQ(collector.make_room(any, 1), 1);
  EXPECT_EQ(steps_in(root.path()), (Steps{20, 30, 40}));
  EXPECT_EQ(collector.make_room(any, 9), 1);
  EXPECT_EQ(steps_in(root.path()), (Steps{20, 40}));
  EXPECT_EQ(collector.make_room(any, 9), 0);
}

TEST(Retention, KilledAtAnyOperationOfADeletionLeavesWholeCheckpoints) {
  TemporaryFolder master;
  run_saves(master.path(), {10, 20, 30, 40}, {.keep = 4});
  int points = 0;
  for (int operation = 0;; ++operation, ++points) {
    SCOPED_TRACE(operation);
    ASSERT_LT(operation, 1000);
    TemporaryFolder root;
    fs::copy(master.path(), root.path(), fs::copy_options::recursive);
    pid_t child = ::fork();
    if (child == 0) {
      FailingFileSystem files({.fault = Fault::kill, .at = operation});
      {
        Collector collector(files, root.path(), {.keep = 2});
        collector.saved(Step(40));
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    auto left = steps_in(root.path());
    EXPECT_TRUE(left.contains(30) && left.contains(40));
    for (std::int64_t step : left) EXPECT_TRUE(verify(root.path() / step_folder_name(Step(step))).empty());
    if (WIFEXITED(status)) break;
    run_saves(root.path(), {50});
    EXPECT_EQ(steps_in(root.path()), (Steps{40, 50}));
    EXPECT_TRUE(entries_with_prefix(root.path(), kTrashPrefix).empty());
  }
  EXPECT_GT(points, 15);
  std::printf("%d crash points\n", points);
}

TEST(Retention, AFailingDeletionNeverFailsASave) {
  for (int number : {EIO, ENOSPC, EACCES})
    for (int operation = 0;; ++operation) {
      TemporaryFolder root;
      run_saves(root.path(), {10, 20, 30}, {.keep = 3});
      FailingFileSystem files({.fault = Fault::error, .at = operation, .persistent = true, .number = number});
      {
        Collector collector(files, root.path(), {.keep = 2});
        collector.saved(Step(30));
      }
      for (std::int64_t step : steps_in(root.path()))
        EXPECT_TRUE(verify(root.path() / step_folder_name(Step(step))).empty());
      EXPECT_TRUE(steps_in(root.path()).contains(20));
      if (!files.struck()) break;
    }
}

/// Another program is always a moment quicker to delete.
class Overtaken final : public FileSystem {
 public:
  int unlink(const char* path) override { return lost(FileSystem::unlink(path)); }
  int rmdir(const char* path) override { return lost(FileSystem::rmdir(path)); }

 private:
  static int lost(int rc) {
    if (rc == 0) errno = ENOENT;
    return -1;
  }
};

TEST(Retention, WhatAnotherProgramDeletesAtTheSameTimeIsGoneToo) {
  TemporaryFolder root;
  fs::path tree = root.path() / ".trash-1";
  fs::create_directories(tree / "inner");
  std::ofstream(tree / "inner" / "file") << "x";
  Overtaken files;
  EXPECT_TRUE(remove_tree(files, tree));
  EXPECT_FALSE(fs::exists(tree));
  EXPECT_TRUE(remove_tree(files, tree));
}

TEST(Retention, WhatGotItsTagWhileItWasMovedAwayComesBack) {
  TemporaryFolder root;
  run_saves(root.path(), {10, 20});
  add_tag(real_file_system(), root.path(), Step(10), "best", false);
  for (int step : {10, 20})
    fs::rename(root.path() / step_folder_name(Step(step)),
               root.path() / fmt::format(".trash-{}.0123", step_folder_name(Step(step))));
  run_saves(root.path(), {40});
  EXPECT_EQ(steps_in(root.path()), (Steps{10, 40}));
  EXPECT_TRUE(entries_with_prefix(root.path(), kTrashPrefix).empty());
}

TEST(Retention, WithoutAWordFromTheDiskNothingCountsAsAbsent) {
  TemporaryFolder root;
  run_saves(root.path(), {10});
  fs::create_symlink(kTagsName, root.path() / kTagsName);  // ELOOP
  EXPECT_THROW(read_tags(real_file_system(), root.path()), StorageError);
  fs::path nowhere = root.path() / "nowhere";
  fs::create_symlink("nowhere", nowhere);
  SingleProcessGroup alone;
  EXPECT_THROW(Store(nowhere, {}).newest_valid(alone), StorageError);
}

TEST(Retention, ToolsFindTheRuleOfTheLastRunInOwner) {
  TemporaryFolder root;
  FileSystem& files = real_file_system();
  EXPECT_EQ(last_rule(files, root.path()).keep, Rule().keep);
  run_saves(root.path(), {10}, {.keep = 2});
  run_saves(root.path(), {20}, {.keep = 7, .keep_every = 100});
  fs::remove(root.path() / kHistoryName);  // it is not synced
  EXPECT_EQ(last_rule(files, root.path()).keep, 7);
  EXPECT_EQ(last_rule(files, root.path()).keep_every, 100);
}

TEST(Retention, ToolsFindTheRuleOfAnOlderDistdlInTheHistory) {
  TemporaryFolder root;
  FileSystem& files = real_file_system();
  run_saves(root.path(), {10}, {.keep = 7, .keep_every = 100});
  spill(root.path() / kOwnerName, R"({"generation":1,"job":"42","lineage":"ab","nonce":"test","restart":0,"start":3})");
  EXPECT_EQ(owner_of(files, root.path())->start, 3U);
  EXPECT_EQ(last_rule(files, root.path()).keep, 7);
  EXPECT_EQ(last_rule(files, root.path()).keep_every, 100);
}

TEST(History, SurvivesTornAndForeignLines) {
  TemporaryFolder root;
  FileSystem& files = real_file_system();
  note(files, root.path(), {.fate = Fate::saved, .step = Step(1)});
  std::ofstream(root.path() / kHistoryName, std::ios::app) << "\n{\"event\": \"saved\", \"st";
  note(files, root.path(), {.fate = Fate::failed, .step = Step(2), .reason = "a \"quoted\" \xff reason"});
  std::ofstream(root.path() / kHistoryName, std::ios::app)
      << "\n[1]\n{\"event\": 3}\n{\"event\": \"unheard\"}\n\n7\n"
      << "{\"event\": \"saved\", \"reason\": " << std::string(100'000, '[') + std::string(100'000, ']') << "}\n";
  note(files, root.path(), {.reason = "job 3", .keep = 5, .keep_every = 100});
  auto events = read_history(files, root.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].step, Step(1));
  EXPECT_THAT(events[1].reason, HasSubstr("\"quoted\""));
  EXPECT_EQ(events[2].keep_every, 100);
  EXPECT_GT(events[2].time, 1'700'000'000);
}

TEST(History, StaysShort) {
  TemporaryFolder root;
  FileSystem& files = real_file_system();
  std::string reason(1900, 'x');
  for (int step = 0; step < 3000; ++step)
    note(files, root.path(), {.fate = Fate::failed, .step = Step(step), .reason = reason});
  shorten_history(files, root.path());
  EXPECT_LT(fs::file_size(root.path() / kHistoryName), 3u << 20);
  auto events = read_history(files, root.path());
  EXPECT_GT(events.size(), 900u);
  EXPECT_EQ(events.back().step, Step(2999));
}
}  // namespace
}  // namespace distdl::checkpoint
