// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/slurm/slurm_fixture.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/job_limits.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;
using ::testing::IsEmpty;

class JobLimitsTest : public FakeSlurm {
 protected:
  void SetUp() override {
    FakeSlurm::SetUp();
    scontrol_with_answers();
  }
  JobLimits limits() const {
    Scheduler scheduler(std::make_unique<Commands>());
    return job_limits({.job = "17"}, scheduler);
  }
};

TEST_F(JobLimitsTest, AllThatSlurmTells) {
  answer("job-17", kRunningJob);
  answer("partition-batch", kPartition);
  answer("config-", kConfig);
  answer("script-17", "#!/bin/bash\n#SBATCH --signal=B:USR1@90\n");
  set("SLURM_JOB_END_TIME", "1900000000");  // as of the job's start; its limit was changed since
  EXPECT_EQ(limits(), (JobLimits{std::chrono::system_clock::from_time_t(1772366400), 90s, PreemptMode::cancel, 165s}));
  set("SBATCH_SIGNAL", "USR1@30");
  EXPECT_EQ(limits().warning, 30s);
}

TEST_F(JobLimitsTest, TheVariableWhereSlurmDoesNotTell) {
  set("SLURM_JOB_END_TIME", "1900000000");
  EXPECT_EQ(limits(), (JobLimits{std::chrono::system_clock::from_time_t(1900000000)})) << "there is no such job";
  answer("job-17", "FAIL Unable to contact slurm controller");
  EXPECT_EQ(limits().end, std::chrono::system_clock::from_time_t(1900000000));
  set("SLURM_JOB_END_TIME", "");
  EXPECT_EQ(limits(), JobLimits{});
}

TEST_F(JobLimitsTest, AJobWithoutALimitAndASiteThatDoesNotTell) {
  answer("job-17", "JobId=17 JobName=x JobState=RUNNING TimeLimit=UNLIMITED EndTime=1803902400 Partition=batch\n");
  EXPECT_EQ(limits(), JobLimits{});
}

TEST(Preemption, ByModeAndGrace) {
  Settings site;
  site.kill_wait = 30s;
  site.preempt_type = "preempt/partition_prio";
  Partition partition{.name = "batch", .preempt_mode = PreemptMode::requeue, .grace = 60s};
  const auto of = [&](bool may_requeue = true) {
    JobLimits limits;
    set_preemption(limits, partition, site, may_requeue);
    return std::pair(limits.preemption, limits.grace);
  };
  EXPECT_EQ(of(), std::pair(PreemptMode::requeue, std::optional(30s))) << "no grace with REQUEUE";
  EXPECT_EQ(of(false), std::pair(PreemptMode::cancel, std::optional(90s))) << "which may not be requeued is cancelled";
  partition.preempt_mode = PreemptMode::cancel;
  EXPECT_EQ(of(), std::pair(PreemptMode::cancel, std::optional(90s)));
  for (const auto mode : {PreemptMode::suspend, PreemptMode::off}) {
    partition.preempt_mode = mode;
    EXPECT_EQ(of(), std::pair(mode, std::optional<Seconds>())) << name_of(mode);
  }
  site.preempt_type = "preempt/qos";
  EXPECT_EQ(of(), std::pair(PreemptMode::unknown, std::optional(30s)));
  site.preempt_type = "preempt/none";
  EXPECT_EQ(of(), std::pair(PreemptMode::off, std::optional<Seconds>()));
}

TEST(JobLimitsVariables, AreReadAsTheyWereWritten) {
  const auto read = [](const std::map<std::string, std::string>& variables) {
    return limits_from([&](const std::string& name) {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  const JobLimits all{std::chrono::system_clock::from_time_t(1900000000), 60s, PreemptMode::requeue, 30s};
  EXPECT_EQ(read(variables_of(all)), all);
  EXPECT_THAT(variables_of({}), IsEmpty());
  EXPECT_EQ(read({}), JobLimits{});
  EXPECT_THROW(read({{"DISTDL_END_OF_JOB", "soon"}}), ConfigError);
}
}  // namespace
}  // namespace distdl::slurm
