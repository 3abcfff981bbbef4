// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/meeting/ledger_thread.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/version.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LedgerTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }
  /// Its folder is there.
  static Ledger made(const fs::path& folder) {
    Ledger ledger(folder);
    ledger.make_folder();
    return ledger;
  }
  static LaunchRecord some_record(const std::string& id) {
    LaunchRecord record{.id = id, .version = DISTDL_VERSION, .job = "[train]", .arguments = {"job.toml"}};
    record.agents = {{"n1", "10.0.0.1 4000", ""}};
    record.secret = "secret";
    return record;
  }
  fs::path folder_ = fs::path(::testing::TempDir()) / ("ledger_" + random_hex(8));
};

TEST_F(LedgerTest, KeepsWhatCameFirst) {
  const Ledger ledger = made(folder_ / "deep" / "launch");
  EXPECT_EQ(ledger.read("1"), std::nullopt);
  EXPECT_EQ(ledger.create("1", "first"), "first");
  EXPECT_EQ(ledger.create("1", "second"), "first");
  EXPECT_EQ(ledger.read("1"), "first");
  EXPECT_EQ(ledger.create("2", "third"), "third");
}

TEST_F(LedgerTest, AllWhoRaceReadTheSame) {
  const Ledger ledger = made(folder_);
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
  const Ledger ledger = made(folder_);
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
  EXPECT_FALSE(find_launch(folder_, "ab12"));
  const Ledger ledger = made(launch_folder(folder_, "ab12"));
  ledger.create(kLaunchRecord, to_text(some_record("ab12")));
  EXPECT_FALSE(find_launch(folder_, "ab12")) << "no generation has begun";
  const auto mode = fs::status(ledger.file(kLaunchRecord)).permissions();
  EXPECT_EQ(mode, fs::perms::owner_read | fs::perms::owner_write) << "it holds the secret";
  Decision decision;
  decision.generation = Generation(1);
  decision.members = {NodeId(0)};
  ledger.create("1", to_text(decision));
  const auto found = find_launch(folder_, "ab12");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->record.secret, "secret");
  EXPECT_EQ(found->newest, decision);
  EXPECT_FALSE(find_launch(folder_, "cd34"));
  decision.generation = Generation(2);
  decision.members.clear();
  decision.end = 0;
  ledger.create("2", to_text(decision));
  EXPECT_FALSE(find_launch(folder_, "ab12"));
  EXPECT_EQ(agreed_code(folder_, "ab12"), 0);
  EXPECT_EQ(agreed_code(folder_, "cd34"), std::nullopt);
}

TEST_F(LedgerTest, NamesTheRecordThatIsDamaged) {
  const Ledger ledger = made(launch_folder(folder_, "ab12"));
  const auto expect = [&](ExitCode code, const fs::path& file) {
    try {
      find_launch(folder_, "ab12");
      ADD_FAILURE() << "no error";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("\"" + file.string() + "\""));
    }
  };
  const auto record = ledger.file(kLaunchRecord), first = ledger.file("1");
  std::ofstream(record) << "{\"id\": ";
  expect(ExitCode::corrupt, record);
  std::ofstream(record) << to_text(some_record("cd34"));
  expect(ExitCode::corrupt, record);
  std::ofstream(record) << to_text(some_record("ab12"));
  std::ofstream(first) << "{}";
  expect(ExitCode::corrupt, first);
  fs::remove(record);
  fs::create_symlink(record, record);
  expect(ExitCode::storage, record);
}

TEST_F(LedgerTest, WhatAKilledStartLeftOfItsLaunchIsRemoved) {
  made(launch_folder(folder_, "killed")).create(kLaunchRecord, to_text(some_record("killed")));
  fs::create_directories(launch_folder(folder_, "killed") / "ranks" / "generation-2");  // as its ranks meet
  std::ofstream(launch_folder(folder_, "killed") / "ranks" / "generation-2" / "rank-0") << "address";
  const auto damaged = Ledger(launch_folder(folder_, "damaged"));
  damaged.make_folder();
  fs::create_symlink(damaged.file(kLaunchRecord), damaged.file(kLaunchRecord));
  made(launch_folder(folder_, "preflight-1234")).create("other", "");
  made(launch_folder(folder_, "with-more")).create(kLaunchRecord, to_text(some_record("with-more")));
  std::ofstream(launch_folder(folder_, "with-more") / "tasks.json") << "{}";
  made(launch_folder(folder_, ".vscode")).create(kLaunchRecord, R"({"version": "0.2.0", "configurations": []})");
  remove_abandoned_launches(folder_);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_ / "launches")) left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"preflight-1234", "damaged", ".vscode", "with-more"}))
      << "only what is certain to be a launch, and nothing else, is removed";
  remove_abandoned_launches(folder_ / "none");
}

TEST_F(LedgerTest, IsPrivateInARunFolderThatOthersMayWriteTo) {
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::all);
  const Ledger ledger = made(launch_folder(folder_, "ab12"));
  ledger.create("1", "text");
  EXPECT_EQ(fs::status(launch_folder(folder_, "ab12")).permissions(), fs::perms::owner_all);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
  std::ofstream(ledger.file("2")) << "forged";
  ASSERT_EQ(::chown(ledger.file("2").c_str(), 65534, 65534), 0);
  EXPECT_THROW((void)ledger.read("2"), StorageError);
  EXPECT_THROW(ledger.create("2", "text"), StorageError);
  EXPECT_EQ(ledger.read("1"), "text");
  ASSERT_EQ(::chown(launch_folder(folder_, "ab12").c_str(), 65534, 65534), 0);
  EXPECT_THROW((void)ledger.read("1"), StorageError);
  EXPECT_THROW(ledger.make_folder(), StorageError);
}

TEST_F(LedgerTest, NeitherMakesNorRemovesAnythingBehindALink) {
  const fs::path project = folder_ / "project", run = folder_ / "run";
  fs::create_directories(project / "vscode");
  std::ofstream(project / "vscode" / "launch.json") << "{}";
  fs::create_directory(run);
  fs::create_directory_symlink(project, run / "launches");
  EXPECT_THROW(remove_abandoned_launches(run), StorageError);
  remove_launch(run, "vscode");
  EXPECT_TRUE(fs::exists(project / "vscode" / "launch.json"));
  EXPECT_THROW(Ledger(launch_folder(run, "ab12")).make_folder(), StorageError);
  EXPECT_FALSE(fs::exists(project / "ab12"));
  fs::remove(run / "launches");
  fs::create_directory(run / "launches");
  fs::create_directory_symlink(project / "vscode", run / "launches" / "ab12");
  remove_abandoned_launches(run);
  EXPECT_TRUE(fs::exists(project / "vscode" / "launch.json"));
}

TEST_F(LedgerTest, TheRecordOfALaunchHasRoomForAllNodes) {
  LaunchRecord record;
  const auto without = to_text(record).size();
  record.agents = {{std::string(64, 'n'), "2001:0db8:85a3:0000:0000:8a2e:0370:7334%interface0 65535", ""}};
  record.secret = std::string(64, 'f');  // its share
  const Ledger ledger = made(folder_);
  // Not a real one: it would take so much memory that the kernel ends this process in a test with a small cgroup.
  const std::string text((to_text(record).size() - without + 1) * kMostNodes, 'x');
  EXPECT_EQ(ledger.create(kLaunchRecord, text).size(), text.size());
  EXPECT_EQ(ledger.read(kLaunchRecord).value_or("").size(), text.size());
}

TEST_F(LedgerTest, SaysWhatTheFileSystemRefuses) {
  const Ledger ledger = made(folder_);
  fs::remove_all(folder_);
  EXPECT_THROW(ledger.create("1", "text"), StorageError);
  std::ofstream(folder_) << "no folder";
  EXPECT_THROW(ledger.make_folder(), StorageError);
}

TEST_F(LedgerTest, AFolderThatWasRemovedIsNotMadeAgain) {
  const Ledger ledger = made(folder_);
  EXPECT_TRUE(ledger.exists());
  fs::remove_all(folder_);
  const Ledger later(folder_);
  EXPECT_THROW(later.create("1", "text"), StorageError);
  EXPECT_EQ(later.read("1"), std::nullopt);
  EXPECT_FALSE(later.exists());
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(LedgerTest, AnotherThreadAnswersInOrder) {
  const Ledger ledger = made(folder_);
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
  EXPECT_FALSE(answers[0].is_gone);
  EXPECT_EQ(answers[1].text, "text");
  EXPECT_EQ(answers[2].text, "text");
}

TEST_F(LedgerTest, WhatElseTheThreadIsToDoIsDoneBeforeItEnds) {
  const Ledger ledger = made(folder_);
  std::vector<int> done;
  {
    LedgerThread thread(ledger);
    for (int i = 0; i < 3; ++i) thread.call([&done, i] { done.push_back(i); });
  }
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
}

TEST_F(LedgerTest, AnErrorIsAnAnswer) {
  const Ledger ledger = made(folder_);
  fs::remove_all(folder_);
  LedgerThread thread(ledger);
  thread.create("1", "text");
  pollfd polled{thread.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 20000), 1);
  const auto answer = thread.poll();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, std::nullopt);
  EXPECT_NE(answer->error, "");
  EXPECT_TRUE(answer->is_gone) << "with its folder";
}
}  // namespace
}  // namespace distdl::agent
