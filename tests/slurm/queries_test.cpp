// SPDX-License-Identifier: Apache-2.0
// The questions to Slurm, which scontrol (a script here) and libslurm (a false plug-in) answer alike.
#include <chrono>

#include <dlfcn.h>
#include <gmock/gmock.h>

#include "tests/pace.hpp"
#include "tests/slurm/slurm_fixture.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/base/plugin.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/queries/libslurm.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kFakePlugin = DISTDL_FAKE_PLUGIN_DIR "/libdistdl_slurm.so";

Time at(std::time_t seconds) {
  return std::chrono::system_clock::from_time_t(seconds);
}

void set_fake_folder(const std::filesystem::path& folder) {
  void* library = ::dlopen(kFakePlugin, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << loader_error();
  reinterpret_cast<void (*)(const char*)>(::dlsym(library, "distdl_fake_folder"))(folder.c_str());
}

enum class Way { commands, libslurm };

class QueriesTest : public FakeSlurm, public ::testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    FakeSlurm::SetUp();
    scontrol_with_answers();
    set_fake_folder(folder_);
    if (GetParam() == Way::commands)
      queries_ = std::make_unique<Commands>();
    else
      queries_ = std::make_unique<Libslurm>(kFakePlugin, nullptr);
  }
  /// The one record of job 17, of these fields.
  JobRecord job_with(const std::string& fields) {
    answer("job-17", "JobId=17 JobName=x\n   " + fields + "\n");
    return queries_->job("17").value();
  }
  std::unique_ptr<Queries> queries_;
};

INSTANTIATE_TEST_SUITE_P(Ways, QueriesTest, ::testing::Values(Way::commands, Way::libslurm),
                         [](const auto& way) { return way.param == Way::commands ? "Commands" : "Libslurm"; });

TEST_P(QueriesTest, AJobThatRuns) {
  answer("job-17", kRunningJob);
  const auto found = queries_->job("17");
  ASSERT_TRUE(found);
  const JobRecord& job = *found;
  EXPECT_EQ(job.id, "17");
  EXPECT_EQ(job.name, "my job State=x");
  EXPECT_EQ(job.user, "alice");
  EXPECT_EQ(job.state, "RUNNING") << "not what the comment pretends";
  EXPECT_EQ(job.reason, "");
  EXPECT_EQ(job.restarts, 3);
  EXPECT_TRUE(job.may_requeue && job.is_batch && job.is_alive() && !job.is_inactive());
  EXPECT_EQ(job.partition, "batch");
  EXPECT_EQ(job.qos, "normal");
  EXPECT_EQ(job.account, "");
  EXPECT_EQ(job.submitted, at(1772366000));
  EXPECT_EQ(job.started, at(1772366100));
  EXPECT_EQ(job.ends, at(1772366400));
  EXPECT_EQ(job.preempted, std::nullopt);
  EXPECT_EQ(job.time_limit, 300s);
  EXPECT_EQ(job.node_list, "n[1-3]");
  EXPECT_EQ(job.excluded_nodes, "n7");
  EXPECT_EQ(job.batch_host, "n1");
  EXPECT_EQ(job.nodes, 3);
  EXPECT_EQ(job.fewest_nodes, 2);
  EXPECT_EQ(job.command, "/data/alice/my jobs/train.sbatch job.toml --set a=b");
  EXPECT_EQ(job.work_folder, "/data/alice/my jobs");
  EXPECT_EQ(job.output, "/data/alice/my jobs/slurm-17.out");
}

TEST_P(QueriesTest, AJobThatWaits) {
  const auto job = job_with(
      "JobState=PENDING Reason=Resources Dependency=singleton(unfulfilled) TimeLimit=1-00:00:00 StartTime=Unknown "
      "EndTime=Unknown Partition=batch,urgent NodeList= NumNodes=2-3 ExitCode=0:0");
  EXPECT_TRUE(job.is_pending() && job.is_inactive() && !job.is_alive());
  EXPECT_EQ(job.reason, "Resources");
  EXPECT_EQ(job.dependency, "singleton(unfulfilled)");
  EXPECT_EQ(job.partition, "batch,urgent");
  EXPECT_EQ(job.time_limit, 24h);
  EXPECT_FALSE(job.started || job.ends);
  EXPECT_EQ(job.nodes, 2);
  EXPECT_EQ(job.fewest_nodes, 2);
}

TEST_P(QueriesTest, AJobOnOneLine) {
  answer("job-17",
         "JobId=17 JobName=my job UserId=alice(1000) JobState=RUNNING Restarts=2 NodeList=n1 Command=/a b/c "
         "WorkDir=/a b Comment=\n");
  const auto job = queries_->job("17").value();
  EXPECT_EQ(job.name, "my job");
  EXPECT_EQ(job.user, "alice");
  EXPECT_EQ(job.restarts, 2);
  EXPECT_EQ(job.command, "/a b/c");
}

TEST_P(QueriesTest, ACommentOfSeveralLinesPretendsNothing) {
  const auto job = job_with(
      "JobState=RUNNING Restarts=2 NodeList=n1\n   Command=/a\n   WorkDir=/b\n   Comment=a\nJobState=NEVER ever "
      "Restarts=7\n"
      "   NodeList=n9 WorkDir=/c\n   StdOut=/x\n   StdOut=/b/slurm-17.out");
  EXPECT_EQ(job.state, "RUNNING");
  EXPECT_EQ(job.restarts, 2);
  EXPECT_EQ(job.node_list, "n1");
  EXPECT_EQ(job.work_folder, "/b");
  EXPECT_EQ(job.output, "/b/slurm-17.out");
}

TEST_P(QueriesTest, AJobThatHasEnded) {
  const auto job = job_with(
      "JobState=FAILED Reason=NonZeroExitCode ExitCode=75:9 TimeLimit=UNLIMITED EndTime=2026-03-01T12:00:00 "
      "PreemptTime=2026-03-01T11:59:00 Requeue=0 BatchFlag=0");
  EXPECT_TRUE(job.is_inactive());
  EXPECT_EQ(job.exit_code, 75);
  EXPECT_EQ(job.signal, 9);
  EXPECT_EQ(job.ends, at(1772366400)) << "in local time, where Slurm ignores SLURM_TIME_FORMAT";
  EXPECT_EQ(job.preempted, at(1772366340));
  EXPECT_FALSE(job.may_requeue || job.is_batch);
}

TEST_P(QueriesTest, AnEndIsOneThatSlurmKnows) {
  for (const char* fields : {"JobState=RUNNING TimeLimit=UNLIMITED EndTime=1803902400",  // a year ahead
                             "JobState=RUNNING TimeLimit=01:00:00 EndTime=Unknown",
                             "JobState=RUNNING TimeLimit=01:00:00 EndTime=9999-12-31T23:59:59",  // too many nanoseconds
                             "JobState=RUNNING TimeLimit=01:00:00"})
    EXPECT_EQ(job_with(fields).ends, std::nullopt) << fields;
}

TEST_P(QueriesTest, OfAnArrayTheTaskThatIsAskedFor) {
  const std::string text =
      "JobId=20 ArrayJobId=17 ArrayTaskId=2 JobName=x\n   JobState=RUNNING\n\n"
      "JobId=17 ArrayJobId=17 ArrayTaskId=3 JobName=x\n   JobState=PENDING\n";
  for (const char* name : {"job-17_2", "job-17", "job-5"}) answer(name, text);
  EXPECT_EQ(queries_->job("17_2")->state, "RUNNING");
  EXPECT_EQ(queries_->job("17")->state, "PENDING");
  EXPECT_EQ(queries_->job("5")->id, "20") << "the first, as scontrol shows them";
}

TEST_P(QueriesTest, WhatThereIsNot) {
  EXPECT_EQ(queries_->job("99"), std::nullopt);
  EXPECT_FALSE(queries_->partition("none"));
  EXPECT_EQ(queries_->batch_script("99"), std::nullopt);
}

TEST_P(QueriesTest, AControllerThatIsAwayIsAnErrorInItsWords) {
  const std::string away = "Unable to contact slurm controller (connect failure)";
  for (const char* name : {"job-17", "partition-batch", "config-", "script-17"}) answer(name, "FAIL " + away);
  const auto says_so = ThrowsMessage<SchedulerError>(HasSubstr(away));
  EXPECT_THAT([&] { queries_->job("17"); }, says_so);
  EXPECT_THAT([&] { queries_->partition("batch"); }, says_so);
  EXPECT_THAT([&] { queries_->settings(); }, says_so);
  EXPECT_THAT([&] { queries_->batch_script("17"); }, says_so);
  answer("job-17", "nonsense");
  EXPECT_THROW(queries_->job("17"), SchedulerError);
}

TEST_P(QueriesTest, PartitionSettingsAndScript) {
  answer("partition-batch", kPartition);
  const auto partition = queries_->partition("batch");
  ASSERT_TRUE(partition);
  EXPECT_EQ(partition->preempt_mode, PreemptMode::cancel);
  EXPECT_EQ(partition->grace, 120s);
  EXPECT_EQ(partition->longest, 48h);
  EXPECT_EQ(partition->priority_tier, 7);
  EXPECT_EQ(partition->state, "UP");
  answer("config-", kConfig);
  const auto settings = queries_->settings();
  EXPECT_EQ(settings.version, "23.11.4");
  EXPECT_EQ(settings.cluster, "pocket");
  EXPECT_EQ(settings.kill_wait, 45s);
  EXPECT_EQ(settings.slurmd_timeout, 300s);
  EXPECT_EQ(settings.message_timeout, 20s);
  EXPECT_EQ(settings.credential_life, 60s);
  EXPECT_EQ(settings.preempt_type, "preempt/partition_prio");
  EXPECT_EQ(settings.preempt_mode, PreemptMode::suspend);
  EXPECT_TRUE(settings.sends_user_signal && settings.requeues);
  answer("script-17", "#!/bin/bash\nsleep 1\n");
  EXPECT_EQ(queries_->batch_script("17"), "#!/bin/bash\nsleep 1\n");
}

class LibslurmTest : public FakeSlurm {
 protected:
  void SetUp() override {
    FakeSlurm::SetUp();
    set_fake_folder(folder_);
  }
};

TEST_F(LibslurmTest, WhatItCannotAnswerInTimeTheCommandsDo) {
  scontrol("echo JobId=17 JobState=SUSPENDED");
  answer("job-17", "HANG");
  answer("job-18", "JobId=18 JobState=RUNNING\n");
  Libslurm alone(kFakePlugin, nullptr, 100ms);
  EXPECT_THAT([&] { alone.job("17"); }, ThrowsMessage<SchedulerError>(HasSubstr("libslurm did not answer within")));
  EXPECT_THROW(alone.job("18"), SchedulerError) << "its one thread is busy";
  Libslurm both(kFakePlugin, std::make_unique<Commands>(), 100ms);
  EXPECT_EQ(both.job("17")->state, "SUSPENDED");
  EXPECT_EQ(both.job("18")->state, "SUSPENDED");
  std::string state;
  for (const auto end = Deadline::after(paced(5000ms)); state != "RUNNING" && !end.expired();)
    state = both.job("18")->state;
  EXPECT_EQ(state, "RUNNING") << "it has come back";
}

TEST_F(LibslurmTest, IsUsedWhereSlurmsCommandsAreOfItsRelease) {
  set("DISTDL_PLUGIN_PATH", DISTDL_FAKE_PLUGIN_DIR);
  for (const auto& [version, way] : {std::pair("slurm-wlm 22.05.8", "libslurm 22.05"),
                                     {"slurm 22.05.9", "libslurm 22.05"},
                                     {"slurm 23.02.1", "scontrol"},
                                     {"", "scontrol"}}) {
    scontrol(std::string("[ $1 = show ] || echo ") + version);
    EXPECT_EQ(best_queries()->description(), way) << version;
  }
  scontrol("echo 'fatal: Unable to process configuration file' >&2; exit 1");
  EXPECT_EQ(best_queries()->description(), "scontrol") << "libslurm would end the process";
  scontrol("[ $1 = --version ] && echo slurm 22.05.8");
  EXPECT_EQ(best_queries()->description(), "scontrol") << "the same, perhaps";
  set("DISTDL_PLUGIN_PATH", folder_.string());
  scontrol("echo slurm 22.05.8");
  EXPECT_EQ(best_queries()->description(), "scontrol");
  answer("libdistdl_slurm.so", "no library");
  EXPECT_EQ(best_queries()->description(), "scontrol");
}

TEST(SlurmPlugin, IsFoundInAnyFolderOfThePluginPath) {
  ::setenv("DISTDL_PLUGIN_PATH", "/nowhere:" DISTDL_FAKE_PLUGIN_DIR, 1);
  EXPECT_EQ(find_plugin("libdistdl_slurm.so"), std::filesystem::path(kFakePlugin));
  ::unsetenv("DISTDL_PLUGIN_PATH");
}

#ifdef DISTDL_SLURM_PLUGIN
TEST(SlurmPlugin, OfThisBuildIsFound) {
  auto found = find_plugin("libdistdl_slurm.so");
  ASSERT_TRUE(found);
  EXPECT_TRUE(std::filesystem::equivalent(*found, DISTDL_SLURM_PLUGIN));
}
#endif
}  // namespace
}  // namespace distdl::slurm
