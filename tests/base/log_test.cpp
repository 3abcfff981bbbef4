// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>

namespace distdl {
namespace {
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("log_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "logs");
  }
  void TearDown() override {
    start_logging({});  // lets go of the file
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path file() const { return folder_ / "logs" / "n1.log"; }
  LogOptions to_file(int rank = -1) const {
    return {.level = Severity::info, .console = false, .file = file(), .host = "n1", .rank = rank};
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::ifstream in(file());
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(Log, LinesCarryTimeSeverityHostRankAndStep) {
  start_logging(to_file(3));
  log(Severity::debug, "not at this level");
  set_log_step(Step(41));
  log(Severity::warning, "disk {}% full", 99);
  EXPECT_THAT(lines(), ElementsAre(MatchesRegex("20[0-9-]+T[0-9:.]+ warning host=n1 rank=3 step=41 disk 99% full")));
}

TEST_F(Log, RanksThatAreThreadsAreToldApart) {
  start_logging(to_file());
  for (int rank : {0, 1})
    std::thread([rank] {
      set_log_rank(Rank(rank));
      log(Severity::info, "here");
    }).join();
  log(Severity::info, "no rank");
  auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_THAT(all[0], HasSubstr(" rank=0 "));
  EXPECT_THAT(all[1], HasSubstr(" rank=1 "));
  EXPECT_THAT(all[2], ::testing::Not(HasSubstr("rank=")));
}

TEST_F(Log, StartingAgainAppendsAndDoesNotDouble) {
  start_logging(to_file());
  log(Severity::info, "first");
  start_logging(to_file());
  log(Severity::info, "second");
  EXPECT_THAT(lines(), ElementsAre(EndsWith("first"), EndsWith("second")));
}

TEST_F(Log, ManyProcessesShareAFileAndLinesStayWhole) {
  constexpr int kProcesses = 6, kLines = 300;
  const std::string body(700, '.');
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kProcesses; ++rank) {
    pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      start_logging(to_file(rank));
      for (int i = 0; i < kLines; ++i) log(Severity::info, "{} {} end", i, body);
      ::_exit(0);
    }
    processes.push_back(pid);
  }
  for (pid_t pid : processes) {
    int status = 1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  std::map<int, int> next;  // of each rank
  for (const auto& line : lines()) {
    auto at = line.find("rank=");
    ASSERT_NE(at, std::string::npos) << line;
    int rank = line[at + 5] - '0';
    EXPECT_THAT(line, EndsWith(fmt::format(" {} {} end", next[rank]++, body)));
  }
  for (int rank = 0; rank < kProcesses; ++rank) EXPECT_EQ(next[rank], kLines);
}

TEST_F(Log, NamesTheFileThatCannotBeOpened) {
  std::filesystem::create_directories(file());  // a folder has the name
  try {
    start_logging(to_file());
    FAIL() << "no error";
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(file().string()));
  }
}

TEST_F(Log, WritesToRegularFilesOnlyAndWaitsForNobody) {
  std::filesystem::create_directories(file().parent_path());
  const auto elsewhere = folder_ / "elsewhere";
  std::ofstream(elsewhere) << "mine";
  for (const char* kind : {"a FIFO", "a link"}) {
    if (kind == std::string("a link")) std::filesystem::create_symlink(elsewhere, file());
    ASSERT_TRUE(kind != std::string("a FIFO") || ::mkfifo(file().c_str(), 0600) == 0);
    try {
      start_logging(to_file());
      FAIL() << kind;
    } catch (const StorageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(kind));
    }
    EXPECT_EQ(std::filesystem::file_size(elsewhere), 4U);
    std::filesystem::remove(file());
  }
}

TEST(Severity, IsKnownByName) {
  EXPECT_EQ(severity_from("debug"), Severity::debug);
  EXPECT_EQ(severity_from("error"), Severity::error);
  EXPECT_THROW(severity_from("loud"), ConfigError);
}
}  // namespace
}  // namespace distdl
