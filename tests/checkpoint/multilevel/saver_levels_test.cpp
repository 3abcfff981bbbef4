// SPDX-License-Identifier: Apache-2.0
// What a Saver keeps in memory for its levels, seen by who restores after its end.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/multilevel/saving_nodes.hpp"
#include <distdl/checkpoint/disk_snapshots.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

const Protection kNone, kPartner{"partner"}, kParity{"parity"}, kBoth{"partner", "parity"};

std::vector<std::string> unkept(const std::vector<SaveOutcome>& outcomes) {
  std::vector<std::string> all;
  for (const SaveOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error, "");
    all.push_back(outcome.unkept);
  }
  return all;
}

TEST(SaverLevels, AnotherProcessFindsTheNewestSnapshot) {
  Site site;
  const auto outcomes = save_and_die(site, names_of(2), {{10, kNone}, {20, kNone}, {30, kNone}});
  EXPECT_THAT(unkept(outcomes), testing::Each(""));
  for (const auto& outcome : outcomes) {
    EXPECT_FALSE(outcome.file_system);
    EXPECT_GT(outcome.durable_seconds, 0);
  }
  EXPECT_EQ(step_restored(site, names_of(2)), Step(30));
}

TEST(SaverLevels, TellsWhereASnapshotIs) {
  Site site;
  const auto levels = [&site](const std::vector<std::string>& nodes, const Protection& how) {
    return save_and_die(site, nodes, {{10, how}}).at(0).levels;
  };
  EXPECT_EQ(levels(names_of(3), kNone), std::vector<std::string>{"memory"});
  EXPECT_EQ(levels(names_of(3), kBoth), (std::vector<std::string>{"memory", "partner", "parity"}));
  EXPECT_EQ(levels({"n0", "n0"}, kBoth), std::vector<std::string>{"memory"}) << "there is no other domain";
}

TEST(SaverLevels, WhatGoesWithCopiesElsewhereStaysWhileTheyDo) {
  for (const Protection& how : {kPartner, kParity}) {
    Site site;
    save_and_die(site, names_of(3), {{10, how}, {20, kNone}, {30, kNone}, {40, kNone}});
    lose_memory_of(site, "n1");
    EXPECT_EQ(step_restored(site, {"n0", "fresh", "n2"}), Step(10));
  }
}

// Parity is made more often, copies outlive more: neither takes the other's buffer.
TEST(SaverLevels, OneKindDoesNotTakeTheSlotOfAnother) {
  Site site;
  save_and_die(site, names_of(4), {{100, kPartner}, {110, kParity}, {120, kParity}, {130, kParity}, {135, kNone}});
  const auto kept = site.names();
  lose_memory_of(site, "n1");
  EXPECT_EQ(step_restored(site, {"n0", "f1", "n2", "n3"}), Step(130));
  site.remove_all_but(kept);
  lose_memory_of(site, "n3");
  for (const auto& node : {"f1", "f3"}) lose_memory_of(site, node);
  EXPECT_EQ(step_restored(site, {"n0", "f1", "n2", "f3"}), Step(100));
}

TEST(SaverLevels, WhatCannotBeKeptIsToldAndLeavesWhatWas) {
  constexpr int kPartnerLetters = 3, kParityLetters = 6;
  for (const auto& [how, letters] : {std::pair(kPartner, kPartnerLetters), std::pair(kParity, kParityLetters),
                                     std::pair(kBoth, kPartnerLetters + kParityLetters)})
    for (int last : {0, letters - 1}) {
      Site site;
      // Later ones use all buffers that may be used.
      const auto outcomes =
          save_and_die(site, names_of(3), {{10, how}, {20, how}, {30, kNone}, {40, kNone}}, letters + last);
      const auto reasons = unkept(outcomes);
      ASSERT_EQ(reasons.size(), 4U);
      EXPECT_EQ(reasons[0], "");
      EXPECT_THAT(reasons[1], HasSubstr("was damaged on the way"));
      EXPECT_THAT(reasons[1], HasSubstr("step 20"));
      EXPECT_EQ(reasons[2], "");
      lose_memory_of(site, "n1");
      EXPECT_EQ(step_restored(site, {"n0", "fresh", "n2"}), Step(10));
    }
}

TEST(SaverLevels, ASnapshotInPrivateMemoryIsNotCalledKept) {
  Site site;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;  // enough for OWNER, not for a buffer
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto outcomes = save_and_die(site, names_of(1), {{10, kNone}});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  std::cerr.clear();  // its file may have been too long for a warning
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_THAT(outcomes[0].unkept, HasSubstr("private memory"));
  EXPECT_EQ(step_restored(site, names_of(1)), std::nullopt);
}

TEST(Levels, TellWhichRanksHaveNoPartnerOrParity) {
  Site site;
  const auto gaps_on = [&](const std::vector<std::string>& nodes) {
    std::vector<std::string> gaps;
    run_on(site, nodes, [&](Levels& levels, int rank, const std::string&) {
      if (rank == 0) gaps = levels.gaps();
    });
    return gaps;
  };
  EXPECT_THAT(gaps_on(names_of(2)), testing::IsEmpty());
  EXPECT_THAT(gaps_on({"n0", "n0"}), testing::ElementsAre(testing::AllOf(HasSubstr("none of the 2 ranks has a partner"),
                                                                         HasSubstr("checkpoint.partner_every = 0")),
                                                          HasSubstr("2 of 2 ranks have no parity")));
  EXPECT_THAT(gaps_on({"n0", "n0", "n1"}),
              testing::ElementsAre(testing::AllOf(HasSubstr("1 of 3 ranks have no parity (the first is rank 1)"),
                                                  HasSubstr("checkpoint.parity_every = 0"))));
}

TEST(Levels, ClearWhatDisksHoldOfDeadSavesAndForgottenRuns) {
  Site site;
  site.disk = true;
  namespace fs = std::filesystem;
  const Sample sample = make_sample(3);
  save(site, names_of(1), sample, Step(40), {"disk"});
  const fs::path folder = site.disk_of("n0");
  const fs::path whole = fs::directory_iterator(folder)->path();
  EXPECT_EQ(fs::status(whole).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const auto other = [&](const std::string& run) { return folder / (buffer_prefix(run) + "0-1-1-5-40-1-ab"); };
  const fs::path half = whole.string() + ".half", recent = other("recent"), old = other("old");
  for (const auto& path : {half, recent, old}) fs::copy_file(whole, path);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(15 * 24));
  run_on(site, names_of(1), [](Levels&, int, const std::string&) {});
  EXPECT_TRUE(fs::exists(whole));
  EXPECT_TRUE(fs::exists(recent));
  EXPECT_FALSE(fs::exists(half));
  EXPECT_FALSE(fs::exists(old));
}

TEST(Levels, DoNotTakeFilesThatOthersMayWrite) {
  Site site;
  site.disk = true;
  save(site, names_of(1), make_sample(3), Step(40), {"disk"});
  site.remove_all_but({});
  namespace fs = std::filesystem;
  const fs::path file = fs::directory_iterator(site.disk_of("n0"))->path();
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  run_on(site, names_of(1), [](Levels& levels, int, const std::string&) { EXPECT_FALSE(levels.find()); });
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  run_on(site, names_of(1), [](Levels& levels, int, const std::string&) { EXPECT_TRUE(levels.find()); });
}

/// Whose network is down for what is large.
class NoCarrier final : public Group {
 public:
  explicit NoCarrier(Group& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::vector<std::string> all_gather(const std::string& mine) override { return group_.all_gather(mine); }
  void exchange_buffers(std::span<const Outgoing>, std::span<const Incoming>) override {
    throw StorageError("the network is down");
  }

 private:
  Group& group_;
};

TEST(Levels, LeaveNothingOfARestoreThatFailed) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(2), sample, Step(40), kNone);
  ThreadGroups groups(2);
  const auto errors = groups.run([&](Group& group) {
    NoCarrier without_network(group);
    Levels levels(without_network, real_file_system(), site.setup(fmt::format("n{}", group.rank())));
    const auto plan = levels.find();
    ASSERT_TRUE(plan);
    const RestoreMemory room(sample);
    State state;
    EXPECT_THROW(levels.restore(*plan, room.targets, state), StorageError);
    group.all_gather("");
    EXPECT_EQ(site.names().size(), 3U) << "room for that of the other node was made";
    group.all_gather("");
    levels.keep_only(std::nullopt);
    EXPECT_TRUE(site.names().empty());
  });
  EXPECT_TRUE(all_empty(errors)) << errors[0];
}

TEST(Levels, GoOnWhereOldSnapshotsCannotBeRemoved) {
  Site site;
  site.disk = true;
  save(site, names_of(1), make_sample(3), Step(40), {"disk"});
  const auto folder = site.disk_of("n0");
  testing::internal::CaptureStderr();
  run_on(site, names_of(1), [&](Levels& levels, int, const std::string&) {
    std::filesystem::remove_all(folder);
    spill(folder, "no folder any more");
    EXPECT_NO_THROW(levels.keep_only(std::nullopt));
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("older snapshots remain on the local disk: "));
}

TEST(DiskSnapshots, TellsWhichSnapshotItCannotDelete) {
  TemporaryFolder folder;
  FailingFileSystem files({.fault = FailingFileSystem::Fault::error, .at = -1, .number = EROFS});
  const Share share = share_of(make_sample(3), 0, 1);
  SnapshotMemory buffer = SnapshotMemory::create_private(buffer_bytes(share.slices, {}));
  fill_buffer(buffer.writable(), {"run", 0, 1, Step(40), 1}, share.slices, {});
  DiskSnapshots buffers(files, folder.path(), "run");
  const auto name = buffers.write(buffer.bytes());
  files.strike_in(0);
  testing::internal::CaptureStderr();
  buffers.remove(name);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::AllOf(HasSubstr(name), HasSubstr("EROFS")));
  EXPECT_EQ(buffers.list().size(), 1U);
}

/// A writing thread's group of one, which fails once it is told to.
class Breaks final : public Group {
 public:
  explicit Breaks(const std::atomic<bool>& broken) : broken_(broken) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    if (broken_) throw StorageError("somebody cannot do it");
    return {mine};
  }

 private:
  const std::atomic<bool>& broken_;
};

TEST(SaverLevels, SnapshotsThatCannotBeRemovedAtTheEndOfTheRunAreTold) {
  Site site;
  TemporaryFolder root;
  std::atomic<bool> broken{false};
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  const Levels::Setup levels = site.setup("n0");
  testing::internal::CaptureStderr();
  {
    Saver saver(store, alone, std::make_unique<Breaks>(broken), {levels.run, false, true, levels});
    saver.save(Step(40), share_of(make_sample(3), 0, 1).slices, {}, {false, kNone});
    saver.wait();
    broken = true;
    EXPECT_NO_THROW(saver.close());
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("snapshots of this run remain in the nodes' memory"));
}

}  // namespace
}  // namespace distdl::checkpoint
