// SPDX-License-Identifier: Apache-2.0
// How the environment and scontrol's output are read. scontrol is a script here; tests/cluster asks a real Slurm.
#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/answers.hpp>
#include <distdl/slurm/nodes.hpp>

namespace distdl::slurm {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

bool never() {
  return false;
}

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
  void scontrol(const std::string& text) { command("scontrol", text); }
  void command(const std::string& name, const std::string& text) {
    auto file = folder_ / name;
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

  static constexpr const char* kNames[] = {"SLURM_JOB_ID",          "SLURM_RESTART_COUNT", "SLURM_JOB_NUM_NODES",
                                           "SLURM_NTASKS",          "SLURM_CPUS_PER_TASK", "SLURM_JOB_END_TIME",
                                           "SLURM_NTASKS_PER_NODE", "SLURM_ARRAY_JOB_ID",  "SLURM_ARRAY_TASK_ID"};
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

TEST_F(SlurmJob, RefusesNumbersThatAreNoCounts) {
  set("SLURM_JOB_ID", "17");
  const auto complaint = [&](const std::string& name, const std::string& value) {
    set(name, value);
    std::string text = "no error";
    try {
      current_allocation();
    } catch (const ConfigError& error) {
      text = error.what();
    }
    set(name, "");
    return text;
  };
  for (const char* value : {"-1", "0", "4294967297"})
    EXPECT_THAT(complaint("SLURM_JOB_NUM_NODES", value), HasSubstr("expected a number from 1 to")) << value;
  EXPECT_THAT(complaint("SLURM_NTASKS", "-1"), HasSubstr("SLURM_NTASKS=\"-1\" is out of range"));
  set("SLURM_JOB_NUM_NODES", "65536");
  EXPECT_THAT(complaint("SLURM_NTASKS_PER_NODE", "65536"), HasSubstr("too many tasks on 65536 nodes"));
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
  job_record("JobState=RUNNING TimeLimit=01:00:00 EndTime=9999-12-31T23:59:59");  // more nanoseconds than there are
  EXPECT_EQ(end(), std::nullopt);
  job_record("JobState=RUNNING TimeLimit=01:00:00");
  EXPECT_EQ(end(), std::nullopt);
  scontrol("echo 'Unable to contact slurm controller' >&2; exit 1");
  EXPECT_EQ(end(), std::nullopt);
}

TEST_F(SlurmJob, AnEndThatIsOverOrNoTimeIsIgnored) {
  job_record("JobState=RUNNING TimeLimit=01:00:00 EndTime=2030-03-01T12:00:00");
  for (const char* value : {"1000", "0", "-5", "9223372036854775807"}) {
    set("SLURM_JOB_END_TIME", value);
    EXPECT_EQ(end_of_job_by_variable(), std::nullopt) << value;
    EXPECT_EQ(end(), 1898596800) << value;
  }
}

TEST_F(SlurmJob, ReadsTheRecord) {
  job_record("JobState=COMPLETING Reason=None Requeue=1 Restarts=3");
  auto record = find_job("17");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, "COMPLETING");
  EXPECT_EQ(record->restarts, 3);
  scontrol("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  EXPECT_FALSE(find_job("17"));
}

TEST_F(SlurmJob, AControllerThatIsAwayIsAnErrorInScontrolsWords) {
  scontrol("echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  EXPECT_THAT([] { find_job("17"); }, ThrowsMessage<SchedulerError>(HasSubstr("Unable to contact slurm controller")));
  scontrol("exit 3");
  EXPECT_THAT([] { find_job("17"); }, ThrowsMessage<SchedulerError>(HasSubstr("ended with code 3")));
}

TEST_F(SlurmJob, KnowsItsNodesAndHowManyItNeeds) {
  scontrol("[ \"$*\" = 'show hostnames n[1-3]' ] && printf 'n1\\nn2\\nn3\\n'");
  EXPECT_THAT(nodes_of({.job = "17", .node_list = "n[1-3]"}), ElementsAre("n1", "n2", "n3"));
  command(
      "squeue",
      "echo '{\"jobs\": [{\"array_job_id\": 17, \"job_id\": 7, \"tres_req_str\": \"cpu=1,node=1\"},\n {\"job_id\": 17, "
      "\"tres_req_str\": \"cpu=1,mem=8G,node=2,billing=1\", \"tres_alloc_str\": \"cpu=6,node=3\"}, {\"job_id\": 170, "
      "\"tres_req_str\": \"node=64\"}, {\"job_id\": 18}]}'");
  EXPECT_EQ(fewest_nodes({.job = "17"}), 2);
  EXPECT_EQ(fewest_nodes({.job = "170"}), 64);
  EXPECT_EQ(fewest_nodes_in("\"job_id\": 17", "17"), std::nullopt) << "cut off";
  for (const char* job : {"1", "18", ""}) EXPECT_EQ(fewest_nodes({.job = job}), std::nullopt) << job;
  command("squeue", "echo '{ \"jobs\": [{\"job_id\": 17, \"tres_req_str\": null}] }'");
  EXPECT_EQ(fewest_nodes({.job = "17"}), std::nullopt);
  command("squeue", "exit 1");
  EXPECT_EQ(fewest_nodes({.job = "17"}), std::nullopt);
}

TEST_F(SlurmJob, FindsAStepByItsName) {
  command("squeue", "[ \"$*\" = '--steps --noheader --jobs=17 --format=%j' ] && printf 'batch\\ntrue\\ndistdl-1\\n'");
  EXPECT_EQ(has_step({.job = "17"}, "distdl-1"), true);
  EXPECT_EQ(has_step({.job = "17"}, "distdl-2"), false) << "others do not count, as one of a lost probe";
  command("squeue", "exit 1");
  EXPECT_EQ(has_step({.job = "17"}, "distdl-1"), std::nullopt);
}

TEST_F(SlurmJob, AsksEachNodeWhetherItAnswers) {
  command("srun",
          "[ -z \"$SLURM_GPUS\" ] || exit 1; case \"$*\" in *nodelist=n2*) echo 'srun: error: Communication connection "
          "failure' >&2; exit 233;; "
          "*nodelist=n4*) trap 'touch \"${0%/*}/ended\"; exit' TERM; while :; do sleep 0.05; done;; esac");
  set("SLURM_GPUS", "8");  // of all nodes together
  auto found = probe({.job = "17"}, {"n1", "n2", "n3"}, {}, std::chrono::seconds(20), never);
  EXPECT_THAT(found.answering, ElementsAre("n1", "n3"));
  EXPECT_THAT(found.silent, ElementsAre("n2"));
  EXPECT_EQ(found.cause, "srun says \"srun: error: Communication connection failure\"");
  found = probe({.job = "17"}, {"n4"}, {}, std::chrono::seconds(1), never);
  EXPECT_EQ(found.cause, "srun did not answer within 1 s");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "ended")) << "killed, srun would leave its step behind";
  ::unsetenv("SLURM_GPUS");
}

TEST_F(SlurmJob, ANodeThatLacksAFileIsSilent) {
  command("srun", "while [ \"$1\" != sh ]; do shift; done; exec \"$@\"");
  const std::string here = folder_.string(), away = (folder_ / "not mounted").string();
  EXPECT_THAT(probe({.job = "17"}, {"n1"}, {here, here}, std::chrono::seconds(20), never).answering, ElementsAre("n1"));
  const auto found = probe({.job = "17"}, {"n1"}, {here, away}, std::chrono::seconds(20), never);
  EXPECT_THAT(found.silent, ElementsAre("n1"));
  EXPECT_EQ(found.cause, "there is no " + away);
}

TEST_F(SlurmJob, AsksNoMoreNodesOnceItIsOver) {
  command("srun", "exit 0");
  std::atomic<int> left = 2;
  const auto found =
      probe({.job = "17"}, {"n1", "n2", "n3"}, {}, std::chrono::seconds(20), [&] { return left-- <= 0; });
  EXPECT_THAT(found.answering, ElementsAre("n1", "n2"));
  EXPECT_THAT(found.silent, ElementsAre("n3"));
  EXPECT_EQ(found.cause, "was not asked any more");
}

TEST_F(SlurmJob, WhereNoCommandCanBeStartedSlurmDoesNotTell) {
  for (const char* name : {"scontrol", "squeue", "srun"}) command(name, "exit 0");
  const Allocation job{.job = "17", .node_list = "n1"};
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const int free_one = ::dup(STDERR_FILENO);
  ASSERT_EQ(::close(free_one), 0);
  // A command wants more than one pipe; a sanitizer wants one when it looks at what is thrown.
  const rlimit few{static_cast<rlim_t>(free_one) + 2, files.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(has_step(job, "s"), std::nullopt);
  EXPECT_EQ(fewest_nodes(job), std::nullopt);
  EXPECT_EQ(end_of_job(job), std::nullopt);
  const auto says_why = ThrowsMessage<SchedulerError>(HasSubstr("scontrol was not started: cannot make a pipe"));
  EXPECT_THAT([&] { nodes_of(job); }, says_why);
  EXPECT_THAT([&] { requeue(job); }, says_why);
  EXPECT_THROW(find_job("17"), SchedulerError);
  const auto found = probe(job, {"n1"}, {}, std::chrono::seconds(20), never);
  EXPECT_THAT(found.cause, HasSubstr("srun was not started"));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
}

TEST_F(SlurmJob, ARequeueThatIsRefusedIsAnErrorInScontrolsWords) {
  scontrol("echo \"$*\" > " + (folder_ / "asked").string());
  requeue({.job = "17"});
  std::string asked;
  std::getline(std::ifstream(folder_ / "asked"), asked);
  EXPECT_EQ(asked, "requeue 17");
  set("SLURM_JOB_ID", "17");
  set("SLURM_ARRAY_JOB_ID", "17");
  set("SLURM_ARRAY_TASK_ID", "3");
  requeue(*current_allocation());
  std::getline(std::ifstream(folder_ / "asked"), asked);
  EXPECT_EQ(asked, "requeue 17_3") << "17 would be all tasks of the array";
  EXPECT_FALSE(end_of_job(*current_allocation()));
  std::getline(std::ifstream(folder_ / "asked"), asked);
  EXPECT_EQ(asked, "show job -o 17_3");
  set("SLURM_JOB_ID", "20");
  EXPECT_EQ(current_allocation()->called(), "20") << "another task, or a job that a task has submitted";
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
