// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/meeting/ledger_thread.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;

class LedgerTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::path(::testing::TempDir()) / ("ledger_" + random_hex(8));
};

TEST_F(LedgerTest, KeepsWhatCameFirst) {
  const Ledger ledger(folder_ / "deep" / "launch");
  EXPECT_EQ(ledger.read("1"), std::nullopt);
  EXPECT_EQ(ledger.create("1", "first"), "first");
  EXPECT_EQ(ledger.create("1", "second"), "first");
  EXPECT_EQ(ledger.read("1"), "first");
  EXPECT_EQ(ledger.create("2", "third"), "third");
}

TEST_F(LedgerTest, AllWhoRaceReadTheSame) {
  const Ledger ledger(folder_);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> found(8);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < found.size(); ++i)
        threads.emplace_back([&, i] { found[i] = ledger.create(std::to_string(round), "of " + std::to_string(i)); });
    }
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), 1u);
  }
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path().extension(), ".json") << "left behind: " << entry.path();
}

TEST_F(LedgerTest, EachNodeThatJoinsGetsTheNextNumber) {
  const Ledger ledger(folder_);
  EXPECT_EQ(join_nodes(ledger, 3, {"n7", "10.0.0.7 1", ""}), NodeId(3));
  std::vector<NodeId> numbers(6);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      threads.emplace_back([&, i] { numbers[i] = join_nodes(ledger, 3, {fmt::format("m{}", i), "10.0.0.8 1", ""}); });
  }
  const auto joined = joined_nodes(ledger, 3);
  ASSERT_EQ(joined.size(), 7u);
  EXPECT_EQ(joined.front().host, "n7");
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(joined.at(numbers[i].value - 3).host, fmt::format("m{}", i));
  EXPECT_EQ(node_of_record(record_of_node(12)), 12u);
  for (const char* name : {"12", "launch", "node-", "node-1x"}) EXPECT_FALSE(node_of_record(name)) << name;
}

TEST_F(LedgerTest, ALaunchCanBeJoinedWhileItGoesOn) {
  EXPECT_FALSE(find_launch(folder_));
  const Ledger ledger(folder_ / "launches" / "ab12");
  LaunchRecord record;
  record.id = "ab12";
  record.secret = "secret";
  ledger.create(kLaunchRecord, to_text(record));
  EXPECT_FALSE(find_launch(folder_)) << "no generation has begun";
  const auto mode = fs::status(folder_ / "launches" / "ab12" / "launch.json").permissions();
  EXPECT_EQ(mode, fs::perms::owner_read | fs::perms::owner_write) << "it holds the secret";
  Decision decision;
  decision.generation = Generation(1);
  decision.members = {NodeId(0)};
  ledger.create("1", to_text(decision));
  const auto found = find_launch(folder_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->record.secret, "secret");
  EXPECT_EQ(found->newest, decision);
  decision.generation = Generation(2);
  decision.members.clear();
  decision.end = 0;
  ledger.create("2", to_text(decision));
  EXPECT_FALSE(find_launch(folder_));
}

TEST_F(LedgerTest, ALaunchBeforeTheNewestOneIsNotJoined) {
  Decision decision;
  decision.generation = Generation(1);
  decision.members = {NodeId(0)};
  const auto launches = folder_ / "launches";
  for (const char* id : {"killed", "newest"}) {
    LaunchRecord record;
    record.id = id;
    const Ledger ledger(launches / id);
    ledger.create(kLaunchRecord, to_text(record));
    ledger.create("1", to_text(decision));
  }
  const auto record_of = [&](const char* id) { return launches / id / "launch.json"; };
  fs::last_write_time(record_of("killed"), fs::last_write_time(record_of("newest")) - std::chrono::seconds(1));
  ASSERT_TRUE(find_launch(folder_));
  EXPECT_EQ(find_launch(folder_)->record.id, "newest");
  decision.generation = Generation(2);
  decision.members.clear();
  decision.end = 75;
  Ledger(launches / "newest").create("2", to_text(decision));
  EXPECT_FALSE(find_launch(folder_));
}

TEST_F(LedgerTest, TheRecordOfALaunchHasRoomForAllNodes) {
  LaunchRecord record;
  const auto without = to_text(record).size();
  record.agents = {{std::string(64, 'n'), "2001:0db8:85a3:0000:0000:8a2e:0370:7334%interface0 65535", ""}};
  record.secret = std::string(64, 'f');  // its share
  const Ledger ledger(folder_);
  // Not a real one: it would take so much memory that the kernel ends this process in a test with a small cgroup.
  const std::string text((to_text(record).size() - without + 1) * kMostNodes, 'x');
  EXPECT_EQ(ledger.create(kLaunchRecord, text).size(), text.size());
  EXPECT_EQ(ledger.read(kLaunchRecord).value_or("").size(), text.size());
}

TEST_F(LedgerTest, SaysWhatTheFileSystemRefuses) {
  const Ledger ledger(folder_);
  fs::remove_all(folder_);
  EXPECT_THROW(ledger.create("1", "text"), StorageError);
  std::ofstream(folder_) << "no folder";
  EXPECT_THROW(Ledger{folder_}, StorageError);
}

TEST_F(LedgerTest, AnotherThreadAnswersInOrder) {
  const Ledger ledger(folder_);
  LedgerThread thread(ledger);
  EXPECT_FALSE(thread.poll());
  thread.read("1");
  thread.create("1", "text");
  thread.read("1");
  std::vector<LedgerThread::Answer> answers;
  while (answers.size() < 3) {
    pollfd polled{thread.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&polled, 1, 20000), 1);
    while (auto answer = thread.poll()) answers.push_back(*answer);
  }
  EXPECT_EQ(answers[0].text, std::nullopt);
  EXPECT_EQ(answers[0].error, "");
  EXPECT_EQ(answers[1].text, "text");
  EXPECT_EQ(answers[2].text, "text");
}

TEST_F(LedgerTest, WhatElseTheThreadIsToDoIsDoneBeforeItEnds) {
  const Ledger ledger(folder_);
  std::vector<int> done;
  {
    LedgerThread thread(ledger);
    for (int i = 0; i < 3; ++i) thread.call([&done, i] { done.push_back(i); });
  }
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
}

TEST_F(LedgerTest, AnErrorIsAnAnswer) {
  const Ledger ledger(folder_);
  fs::remove_all(folder_);
  LedgerThread thread(ledger);
  thread.create("1", "text");
  pollfd polled{thread.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 20000), 1);
  const auto answer = thread.poll();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, std::nullopt);
  EXPECT_NE(answer->error, "");
}
}  // namespace
}  // namespace distdl::agent
