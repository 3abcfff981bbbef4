// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/launch/folder_lock.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

class FolderLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("folder_lock_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_CLUSTER_NAME"})
      ::unsetenv(name);
    if (!path_.empty()) ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  static void in_slurm_job() {
    ::setenv("SLURM_JOB_ID", "6", 1);
    ::setenv("SLURM_ARRAY_JOB_ID", "6", 1);
    ::setenv("SLURM_ARRAY_TASK_ID", "2", 1);
    ::setenv("SLURM_CLUSTER_NAME", "c", 1);
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(folder_ / "LOCK").rdbuf();
    return all.str();
  }
  void make_old(std::chrono::seconds age) const {
    std::filesystem::last_write_time(folder_ / "LOCK", std::filesystem::file_time_type::clock::now() - age);
  }
  bool is_locked() const { return std::filesystem::exists(folder_ / "LOCK"); }
  /// A scontrol that knows one job in this state, and the job of in_slurm_job().
  void job_is(const std::string& text) {
    const auto file = folder_ / "scontrol";
    std::ofstream(file)
        << "#!/bin/sh\n[ \"$3\" != 6_2 ] || exec echo JobId=6 ArrayJobId=6 ArrayTaskId=2 JobState=RUNNING\n"
        << text << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    if (path_.empty()) path_ = env("PATH").value_or("");
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  std::filesystem::path folder_;
  std::string path_;
};

/// Of another machine, in job 5 of the cluster c.
Holder other() {
  Holder holder = Holder::self();
  holder.host = "elsewhere";
  holder.cluster = "c";
  holder.job = "5";
  holder.nonce = "another";
  return holder;
}
Holder in_job(const std::string& job, std::int64_t restart = 0) {
  Holder holder = Holder::self();
  holder.cluster = "c";
  holder.job = job;
  holder.restart = restart;
  return holder;
}

TEST_F(FolderLockTest, ASecondStartIsRefusedAsLongAsTheFirstOneHoldsIt) {
  {
    FolderLock first(folder_, false);
    try {
      FolderLock second(folder_, false);
      FAIL() << "not refused";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::superseded);
      EXPECT_THAT(error.what(), HasSubstr("pid " + std::to_string(::getpid())));
      EXPECT_THAT(error.what(), HasSubstr("--take-over"));
    }
    EXPECT_FALSE(first.check());
  }
  EXPECT_FALSE(is_locked());
  FolderLock third(folder_, false);
}

TEST_F(FolderLockTest, OneThatTakesOverHasItAndTheFirstOneLearnsIt) {
  std::optional<FolderLock> first(std::in_place, folder_, false);
  FolderLock second(folder_, true);
  EXPECT_FALSE(second.check());
  EXPECT_TRUE(first->check());
  EXPECT_TRUE(first->is_lost());
  first.reset();
  EXPECT_TRUE(is_locked()) << "the second one's is removed";
  EXPECT_FALSE(second.check());
}

TEST_F(FolderLockTest, ALockThatSomebodyRemovedIsMadeAgain) {
  FolderLock first(folder_, false);
  std::filesystem::remove(folder_ / "LOCK");
  EXPECT_FALSE(first.check());
  EXPECT_TRUE(is_locked());
}

TEST_F(FolderLockTest, OneThatIsLeftBehindIsTakenAtOnce) {
  Holder gone = Holder::self();
  gone.started -= 1;  // another process had this pid
  std::ofstream(folder_ / "LOCK") << to_text(gone);
  FolderLock first(folder_, false);
  EXPECT_FALSE(first.check());
}

TEST_F(FolderLockTest, WhatMakesNoSenseIsRefusedWhileFreshAndTakenWhenOld) {
  std::ofstream(folder_ / "LOCK") << "host=n1\n";
  EXPECT_THROW(FolderLock(folder_, false), StorageError);
  make_old(2 * kLongestSilence);
  FolderLock first(folder_, false);
}

TEST_F(FolderLockTest, WhatIsDamagedWhileItsStartLivesIsWrittenAgain) {
  FolderLock first(folder_, false);
  std::filesystem::resize_file(folder_ / "LOCK", 0);
  EXPECT_FALSE(first.check());
  EXPECT_EQ(text(), "") << "somebody may be just writing it";
  make_old(10s);
  EXPECT_FALSE(first.check());
  EXPECT_TRUE(holder_from(text())) << text();
  EXPECT_THROW(FolderLock(folder_, false), StorageError);
}

TEST_F(FolderLockTest, WithinAJobWhatIsEmptyIsWaitedForUntilItIsOld) {
  in_slurm_job();
  std::ofstream(folder_ / "LOCK") << "";
  make_old(kLongestSilence - 1s);
  FolderLock first(folder_, false);
  EXPECT_TRUE(holder_from(text())) << text();
}

TEST_F(FolderLockTest, WhatIsMadeWhileTheOneBeforeIsJudgedStays) {
  in_slurm_job();
  std::ofstream(folder_ / "LOCK") << to_text(other());
  Holder quicker = other();
  quicker.job = "7";
  quicker.nonce = "quicker";
  std::ofstream(folder_ / "next") << to_text(quicker);
  job_is("cd " + folder_.string() +
         "; [ $3 = 7 ] && exec echo JobId=7 JobState=RUNNING; mv next LOCK; echo JobId=5 "
         "JobState=CANCELLED");
  EXPECT_THAT([&] { FolderLock(folder_, false); }, ThrowsMessage<StorageError>(HasSubstr("job 7")));
  EXPECT_EQ(text(), to_text(quicker));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, UnorderedElementsAre("LOCK", "scontrol"));
}

TEST_F(FolderLockTest, AJobThatIsJustEndingIsWaitedFor) {
  in_slurm_job();
  std::ofstream(folder_ / "LOCK") << to_text(other());
  job_is("cd " + folder_.string() +
         "; echo x >> asked; case $(wc -l < asked) in 1) exec echo JobId=5 JobState=COMPLETING;; 2) exit 1;; "
         "esac; echo JobId=5 JobState=CANCELLED");
  FolderLock mine(folder_, false);
  EXPECT_FALSE(mine.check());
  EXPECT_THAT(text(), HasSubstr("job=6_2\n"));
}

TEST_F(FolderLockTest, WhatIsNoFileIsLeftAloneAndStopsNothing) {
  std::ofstream(folder_ / "precious") << "text";
  std::filesystem::create_symlink(folder_ / "precious", folder_ / "LOCK");
  { FolderLock first(folder_, true); }
  std::string text;
  std::getline(std::ifstream(folder_ / "precious"), text);
  EXPECT_EQ(text, "text");
}

TEST(Holder, IsReadAsItWasWritten) {
  const auto read = holder_from(to_text(other()));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(other()));
  for (const char* text : {"", "host", "host=a\nnonce=b\n", "\x1b[2J=1\n"}) EXPECT_FALSE(holder_from(text)) << text;
  Holder far = other();
  far.since = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(holder_from(to_text(far)));
}

TEST(Holder, OfAnEarlierRunOfTheSameJobIsGone) {
  EXPECT_TRUE(is_gone(other(), in_job("5", 1), 0s));
  EXPECT_FALSE(is_gone(other(), in_job("5", 0), 0s)) << "two in one job";
  Holder elsewhere = other();
  elsewhere.cluster = "d";
  EXPECT_FALSE(is_gone(elsewhere, in_job("5", 1), 0s));
}

TEST(Holder, OfThisMachineIsGoneWithItsProcess) {
  Holder here = Holder::self();
  EXPECT_FALSE(is_gone(here, Holder::self(), 10 * kLongestSilence)) << "stopped for long, yet there";
  here.pid = 1 << 30;
  EXPECT_TRUE(is_gone(here, Holder::self(), 0s));
}

TEST(Holder, OfAnotherMachineIsGoneAfterALongSilence) {
  Holder local = other();
  local.job = "";
  EXPECT_FALSE(is_gone(local, in_job("6"), kLongestSilence));
  EXPECT_TRUE(is_gone(local, in_job("6"), kLongestSilence + 1s));
  EXPECT_FALSE(is_gone(other(), Holder::self(), kLongestSilence)) << "no job: Slurm is not asked";
}

TEST_F(FolderLockTest, OfAnotherJobIsGoneWhenSlurmSaysSo) {
  const auto gone = [](std::chrono::seconds age) { return is_gone(other(), in_job("6"), age); };
  for (const char* state : {"COMPLETED", "TIMEOUT", "PENDING"}) {
    job_is(std::string("echo JobId=5 JobState=") + state);
    EXPECT_TRUE(gone(0s)) << state;
  }
  job_is("echo 'Invalid job id specified' >&2; exit 1");
  EXPECT_TRUE(gone(0s));
  job_is("echo JobId=5 JobState=RUNNING");
  EXPECT_FALSE(gone(kLongestSilence));
  EXPECT_TRUE(gone(2 * kLongestSilence)) << "the job runs something else by now";
  job_is("echo JobId=5 JobState=SUSPENDED");
  EXPECT_FALSE(gone(2 * kLongestSilence));
  job_is("echo 'Unable to contact slurm controller' >&2; exit 1");
  EXPECT_FALSE(gone(0s));
  EXPECT_TRUE(gone(2 * kLongestSilence));
}
}  // namespace
}  // namespace distdl::launch
