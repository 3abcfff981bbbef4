// SPDX-License-Identifier: Apache-2.0
// A job that has too few nodes left: they are waited for, or it is requeued.
#include <thread>

#include <gmock/gmock.h>

#include "tests/launch/under_slurm_fixture.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/requeue.hpp>

namespace distdl::launch {
namespace {
using ::testing::HasSubstr;

TEST_F(UnderSlurm, WaitsForNodesWhereTooFewAnswer) {
  launches_do("[ $n = 1 ] && rm n2 n3 && { (sleep 1; touch n3) >/dev/null 2>&1 & } && exit 69; exit 0");
  EXPECT_EQ(supervise(job(), {.relaunches = 0}), 0);
  EXPECT_THAT(said().back(), HasSubstr("--nodelist=n1,n3"));
}

TEST_F(UnderSlurm, RequeuesTheJobWhenTheNodesDoNotComeBack) {
  launches_do("rm n2 n3; exit 69");
  supervise(job(), {.relaunches = 0, .node_minutes = 0});
  EXPECT_EQ(lines("requeued"), 1u);
  EXPECT_EQ(lines("launches"), 1u);
}

TEST_F(UnderSlurm, RequeuesTheJobAtOnceWhenSlurmHasTakenItsNodesAway) {
  launches_do("rm n2 n3; echo JobState=RUNNING Restarts=0 NumNodes=1 > record; exit 69");
  const Stopwatch watch;
  EXPECT_EQ(supervise(job(), {.relaunches = 0}), 75);
  EXPECT_LT(watch.seconds(), 30) << "run.node_minutes is 10";
  EXPECT_EQ(lines("requeued"), 1u);
  std::ofstream(folder_ / "n2") << "n2";
  std::ofstream(folder_ / "n3") << "n3";
  launches_do("[ $n = 2 ] && rm n3 && echo JobState=RUNNING Restarts=0 NumNodes=2 > record && exit 69; exit 0");
  EXPECT_EQ(supervise(job(), {.relaunches = 0, .pause_seconds = 0}), 0) << "enough are left";
}

TEST_F(UnderSlurm, RequeuesTheJobAtOnceWhenSlurmHasLeftItNodesThatAreLeftOut) {
  launches_do("rm n3; echo JobState=RUNNING Restarts=0 NodeList=n[1-2] NumNodes=2 > record; exit 69");
  const Stopwatch watch;
  EXPECT_EQ(supervise(on_nodes(job(), {"n2", "n3"}), {.relaunches = 0}), 75);
  EXPECT_LT(watch.seconds(), 30) << "run.node_minutes is 10";
  EXPECT_EQ(lines("requeued"), 1u);
}

TEST_F(UnderSlurm, ANodeThatWasLeftOutIsUsedWhereTheJobCannotDoWithoutIt) {
  auto work = on_nodes(job(), {"n2", "n3"});
  work.second_choice = {"n1"};
  launches_do(
      "[ $n = 1 ] && rm n3 && echo JobState=RUNNING Restarts=0 NodeList=n[1-2] NumNodes=2 > record && exit 69; exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 0, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 2u);
  EXPECT_THAT(said()[1], HasSubstr("--nodes=2 --ntasks=4 --nodelist=n2,n1 "));
  work.wrong_nodes = [] { return std::vector<std::string>{"n2"}; };
  launches_do(
      "[ $n = 3 ] && touch n3 && echo JobState=RUNNING Restarts=0 NodeList=n[1-3] NumNodes=3 > record && exit 72; exit "
      "0");
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 4u);
  EXPECT_THAT(said()[3], HasSubstr("--nodes=2 --ntasks=4 --nodelist=n3,n1 "));
}

TEST_F(UnderSlurm, ANodeThatWasLeftOutStaysOutWhereOthersSufficeOrItDoesNotAnswer) {
  auto work = on_nodes(job(), {"n1", "n2"});
  work.second_choice = {"n3"};
  launches_do("[ $n = 1 ] && exit 69; exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0}), 0);
  EXPECT_THAT(said()[1], HasSubstr("--nodelist=n1,n2 "));
  launches_do("rm -f n2 n3; echo JobState=RUNNING Restarts=0 NodeList=n1 NumNodes=1 > record; exit 69");
  EXPECT_EQ(supervise(work, {.relaunches = 0}), 75);
  EXPECT_EQ(lines("requeued"), 1u);
}

TEST_F(UnderSlurm, ASignalBetweenTwoLaunchesStopsTheRun) {
  for (const std::string act : {"touch stop", "[ $n = 1 ] || { (sleep 0.3; kill -USR1 $PPID) >/dev/null 2>&1 & }"}) {
    for (const char* name : {"launches", "stop"}) std::filesystem::remove(folder_ / name);
    launches_do(act + "; exit 69");  // the signal comes during the look for nodes, or during the pause
    EXPECT_EQ(supervise(job(), {.requeue = false, .pause_seconds = 20}), 75) << act;
  }
}

TEST_F(UnderSlurm, LeavesTheJobAloneWhereSlurmHasDecided) {
  for (const char* record : {"JobState=COMPLETING Restarts=0", "JobState=RUNNING Restarts=1"}) {
    launches_do(std::string("rm -f n2 n3; echo '") + record + "' > record; exit 69");
    EXPECT_EQ(supervise(job(), {}), 69);
    EXPECT_EQ(lines("requeued"), 0u) << record;
    launches_do(std::string("echo '") + record + "' > record; exit 75");
    EXPECT_EQ(supervise(job(), {}), 75);
    EXPECT_EQ(lines("requeued"), 0u) << record;
  }
}

TEST_F(UnderSlurm, AsksForARequeueUntilTheControllerIsBack) {
  launches_do("rm up; { (sleep 1; touch up) >/dev/null 2>&1 & }; exit 75");
  EXPECT_EQ(supervise(job(), {}), 75);
  EXPECT_EQ(lines("requeued"), 1u);
  launches_do("rm up; exit 75");
  EXPECT_THROW(supervise(job(), {.scheduler_minutes = 0}), SchedulerError);
}

TEST_F(UnderSlurm, ARequeueThatEndsItsOwnScontrolIsARequeue) {
  auto work = job();
  int told = 0;
  work.events.requeued = [&told] { ++told; };
  command("scontrol",
          "[ $1 = requeue ] && { echo JobState=COMPLETING Restarts=1 > record; echo x >> requeued; kill -TERM $$; }\n"
          "echo \"JobId=1 $(cat record)\"");
  launches_do("exit 75");
  EXPECT_EQ(supervise(work, {}), 75);
  EXPECT_EQ(lines("requeued"), 1u);
  EXPECT_EQ(told, 1) << "Slurm ends the processes of the job, and the journal must tell that the run goes on";
}

TEST_F(UnderSlurm, RequeuesAJobThatFailsBecauseItsScriptWasKilledOnANodeThatIsBack) {
  const auto expect = [this](const std::string& record, bool requeued) {
    std::ofstream(folder_ / "record") << record;
    std::filesystem::remove(folder_ / "requeued");
    EXPECT_EQ(requeue_if_script_lost(*job().allocation), requeued) << record;
    EXPECT_EQ(lines("requeued"), requeued ? 1u : 0u) << record;
  };
  expect("JobState=COMPLETING Reason=JobLaunchFailure Restarts=0", true);
  expect("JobState=FAILED Reason=JobLaunchFailure Restarts=0", true);
  expect("JobState=COMPLETING Reason=RaisedSignal:9(Killed) Restarts=0", true);
  expect("JobState=RUNNING Reason=None Restarts=0", false);
  expect("JobState=COMPLETING Reason=None Restarts=0", false);
  expect("JobState=CANCELLED Reason=None Restarts=0", false);
  expect("JobState=CANCELLED Reason=JobLaunchFailure Restarts=0", false);
  expect("JobState=CANCELLED Reason=RaisedSignal:9(Killed) Restarts=0", false);
  expect("JobState=PENDING Reason=JobLaunchFailure Restarts=1", false);
  std::filesystem::remove(folder_ / "up");
  expect("JobState=FAILED Reason=JobLaunchFailure Restarts=0", false);
}
}  // namespace
}  // namespace distdl::launch
