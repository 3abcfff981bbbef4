// SPDX-License-Identifier: Apache-2.0
// How the environment and scontrol's output are read. scontrol is a script here; tests/cluster asks a real Slurm.
#include <ctime>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::slurm {
namespace {
using ::testing::HasSubstr;

class SlurmJob : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("slurm_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    for (const char* name : kNames) set(name, "");
    set("DISTDL_PLUGIN_PATH", folder_.string());  // no libslurm: it would ask the real cluster, or end the process
    set("TZ", "UTC");
    ::tzset();
    path_ = ::getenv("PATH");
  }
  void TearDown() override {
    for (const char* name : kNames) ::unsetenv(name);
    ::unsetenv("DISTDL_PLUGIN_PATH");
    set("PATH", path_);
    std::filesystem::remove_all(folder_);
  }
  static void set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }
  /// A scontrol that runs this shell text.
  void scontrol(const std::string& text) {
    auto file = folder_ / "scontrol";
    std::ofstream(file) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    set("PATH", folder_.string() + ":" + path_);
  }
  void job_record(const std::string& fields) {
    scontrol("[ \"$*\" = 'show job -o 17' ] && echo 'JobId=17 JobName=x " + fields + " Comment='");
  }
  static std::optional<std::time_t> end() {
    auto time = end_of_job({.job = "17"});
    return time ? std::optional(std::chrono::system_clock::to_time_t(*time)) : std::nullopt;
  }

  static constexpr const char* kNames[] = {"SLURM_JOB_ID",         "SLURM_RESTART_COUNT", "SLURM_JOB_NUM_NODES",
                                           "SLURM_NTASKS",         "SLURM_CPUS_PER_TASK", "SLURM_JOB_END_TIME",
                                           "SLURM_NTASKS_PER_NODE"};
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(SlurmJob, OutsideOfAJobThereIsNoAllocation) {
  EXPECT_FALSE(current_allocation());
}

TEST_F(SlurmJob, OneTaskANodeIfNothingIsSaid) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_JOB_NUM_NODES", "3");
  auto job = current_allocation();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->job, "17");
  EXPECT_EQ(job->restart, 0);
  EXPECT_EQ(job->nodes, 3);
  EXPECT_EQ(job->tasks, 3);
  EXPECT_EQ(job->cpus_per_task, 1);
}

TEST_F(SlurmJob, TasksPerNodeCountForTheNodesThatWereGiven) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_RESTART_COUNT", "2");
  set("SLURM_JOB_NUM_NODES", "3");
  set("SLURM_NTASKS", "8");  // of the 2 nodes that the job asked for at least
  set("SLURM_NTASKS_PER_NODE", "4");
  set("SLURM_CPUS_PER_TASK", "6");
  auto job = current_allocation();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->restart, 2);
  EXPECT_EQ(job->tasks, 12);
  EXPECT_EQ(job->cpus_per_task, 6);
}

TEST_F(SlurmJob, RefusesAVariableThatIsNoNumber) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_NTASKS", "many");
  EXPECT_THROW(current_allocation(), ConfigError);
}

TEST_F(SlurmJob, TheVariableTellsTheEndBeforeAnyCommand) {
  scontrol("exit 1");
  set("SLURM_JOB_END_TIME", "1900000000");
  EXPECT_EQ(end(), 1900000000);
}

TEST_F(SlurmJob, ReadsTheEndFromScontrol) {
  job_record(
      "JobState=RUNNING TimeLimit=01:00:00 TimeMin=N/A StartTime=2026-03-01T11:00:00 EndTime=2026-03-01T12:00:00");
  EXPECT_EQ(end(), 1772366400);
}

TEST_F(SlurmJob, HasNoEndWithoutALimitOrAnAnswer) {
  job_record("JobState=RUNNING TimeLimit=UNLIMITED EndTime=2027-03-01T12:00:00");
  EXPECT_EQ(end(), std::nullopt);
  job_record("JobState=RUNNING TimeLimit=01:00:00 EndTime=Unknown");
  EXPECT_EQ(end(), std::nullopt);
  job_record("JobState=RUNNING TimeLimit=01:00:00");
  EXPECT_EQ(end(), std::nullopt);
  scontrol("echo 'Unable to contact slurm controller' >&2; exit 1");
  EXPECT_EQ(end(), std::nullopt);
}

TEST_F(SlurmJob, ReadsTheState) {
  job_record("JobState=COMPLETING Reason=None");
  EXPECT_EQ(job_state({.job = "17"}), "COMPLETING");
  scontrol("exit 1");
  EXPECT_EQ(job_state({.job = "17"}), "");
}

TEST_F(SlurmJob, ARequeueThatIsRefusedIsAnErrorInScontrolsWords) {
  scontrol("echo \"$*\" > " + (folder_ / "asked").string());
  requeue({.job = "17"});
  std::string asked;
  std::getline(std::ifstream(folder_ / "asked"), asked);
  EXPECT_EQ(asked, "requeue 17");
  scontrol("echo 'Requested operation is presently disabled' >&2; exit 1");
  try {
    requeue({.job = "17"});
    FAIL() << "no error";
  } catch (const SchedulerError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Requested operation is presently disabled"));
    EXPECT_THAT(error.what(), HasSubstr("submit the same job again"));
  }
}
}  // namespace
}  // namespace distdl::slurm
