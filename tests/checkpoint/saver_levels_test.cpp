// SPDX-License-Identifier: Apache-2.0
// What a Saver keeps in memory for its levels, seen by who restores after its end.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/checkpoint/saving_nodes.hpp"

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

constexpr Protection kNone{}, kPartner{true, false, false}, kParity{false, true, false}, kBoth{true, true, false};

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

TEST(SaverLevels, WhatGoesWithCopiesElsewhereStaysWhileTheyDo) {
  for (const Protection& how : {kPartner, kParity}) {
    Site site;
    save_and_die(site, names_of(3), {{10, how}, {20, kNone}, {30, kNone}, {40, kNone}});
    lose_memory_of(site, "n1");
    EXPECT_EQ(step_restored(site, {"n0", "fresh", "n2"}), Step(10));
  }
}

// Parity is made more often, copies outlive more: neither takes the other's slot.
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
      // Later ones use all slots that may be used.
      const auto outcomes =
          save_and_die(site, names_of(3), {{10, how}, {20, how}, {30, kNone}, {40, kNone}}, letters + last);
      const auto reasons = unkept(outcomes);
      ASSERT_EQ(reasons.size(), 4U);
      EXPECT_EQ(reasons[0], "");
      EXPECT_THAT(reasons[1], HasSubstr("did not arrive whole"));
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
  small.rlim_cur = 4096;  // enough for OWNER, not for a slot
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto outcomes = save_and_die(site, names_of(1), {{10, kNone}});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
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
                                                          HasSubstr("2 of 2 ranks share no parity")));
  EXPECT_THAT(gaps_on({"n0", "n0", "n1"}),
              testing::ElementsAre(testing::AllOf(HasSubstr("1 of 3 ranks share no parity (the first is rank 1)"),
                                                  HasSubstr("checkpoint.parity_every = 0"))));
}

TEST(Levels, ClearWhatDisksHoldOfDeadSavesAndForgottenRuns) {
  Site site;
  site.disk = true;
  namespace fs = std::filesystem;
  const Sample sample = make_sample(3);
  save(site, names_of(1), sample, Step(40), {false, false, true});
  const fs::path folder = site.disk_of("n0");
  const fs::path whole = fs::directory_iterator(folder)->path();
  EXPECT_EQ(fs::status(whole).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const auto other = [&](const std::string& run) { return folder / (slot_prefix(run) + "0-1-1-5-40-1-ab"); };
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
  save(site, names_of(1), make_sample(3), Step(40), {false, false, true});
  site.remove_all_but({});
  namespace fs = std::filesystem;
  const fs::path file = fs::directory_iterator(site.disk_of("n0"))->path();
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  run_on(site, names_of(1), [](Levels& levels, int, const std::string&) { EXPECT_FALSE(levels.find()); });
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  run_on(site, names_of(1), [](Levels& levels, int, const std::string&) { EXPECT_TRUE(levels.find()); });
}

}  // namespace
}  // namespace distdl::checkpoint
