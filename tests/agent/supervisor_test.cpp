// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/agent/rendezvous.hpp>
#include <distdl/agent/supervisor.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Supervisor : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("supervisor_" + std::to_string(::getpid()) + "_" +
                                                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A worker that runs this shell text.
  Mission mission(const std::string& text, int ranks = 2) {
    auto script = folder_ / "worker";
    std::ofstream(script) << "#!/bin/sh\ncd " << folder_.string() << "\n" << text << "\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    return {{script.string()}, folder_ / "checkpoints", ranks, {}};
  }
  /// The same; its launches say in the file "starts" from where they go on.
  Mission mission_with_starts(const std::string& text) {
    auto work = mission(text, 1);
    work.starts = [this] {
      std::vector<Step> steps;
      std::ifstream in(folder_ / "starts");
      for (std::int64_t step = 0; in >> step;) steps.emplace_back(step);
      return steps;
    };
    return work;
  }
  std::size_t lines(const std::string& name) {
    std::ifstream in(folder_ / name);
    std::size_t count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  }
  /// What the launches wrote.
  std::vector<std::string> said() {
    std::ifstream in(folder_ / "launches");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  std::filesystem::path folder_;
};

TEST_F(Supervisor, GivesEachRankItsIdentity) {
  EXPECT_EQ(
      supervise(mission("echo $DISTDL_RANK $DISTDL_WORLD_SIZE > rank.$DISTDL_RANK; test -d $DISTDL_RENDEZVOUS", 3), {}),
      0);
  for (int rank = 0; rank < 3; ++rank) {
    std::ifstream in(folder_ / ("rank." + std::to_string(rank)));
    int mine = -1, size = -1;
    in >> mine >> size;
    EXPECT_EQ(mine, rank);
    EXPECT_EQ(size, 3);
  }
}

TEST_F(Supervisor, RelaunchesAfterACrashUntilItSucceeds) {
  auto text =
      "[ $DISTDL_RANK = 0 ] && echo x >> launches; [ $DISTDL_RANK = 1 ] && [ ! -e crashed ] && touch crashed && kill "
      "-9 $$; exit 0";
  EXPECT_EQ(supervise(mission(text), {}), 0);
  EXPECT_EQ(lines("launches"), 2u);
}

TEST_F(Supervisor, GivesUpAfterRepeatedLossesWithoutProgress) {
  EXPECT_EQ(supervise(mission("echo x >> launches; exit 69", 1), {.relaunches = 2}), 69);
  EXPECT_EQ(lines("launches"), 3u);
}

TEST_F(Supervisor, ALaunchThatBeginsFurtherOnIsProgressWithoutACheckpoint) {
  std::ofstream(folder_ / "starts") << "5000\n";  // of an earlier command
  auto work = mission_with_starts(
      "echo x >> launches; n=$(wc -l < launches); [ $n = 6 ] && exit 0; echo ${n}00 >> starts; kill -9 $$");
  EXPECT_EQ(supervise(work, {.relaunches = 1}), 0);
  EXPECT_EQ(lines("launches"), 6u);
}

TEST_F(Supervisor, LaunchesThatBeginWhereOthersDidAreNoProgress) {
  auto work = mission_with_starts(  // at 0, 100, 0, 100, ...
      "echo x >> launches; n=$(wc -l < launches); [ $n = 12 ] && exit 0; echo $(((n - 1) % 2 * 100)) >> starts; kill "
      "-9 "
      "$$");
  EXPECT_EQ(supervise(work, {.relaunches = 3}), 137);
  EXPECT_EQ(lines("launches"), 5u);  // the second one had made progress
}

TEST_F(Supervisor, ADiskThatRefusesARunThatHasBegunIsTriedAgain) {
  auto work = mission_with_starts(
      "echo x >> launches; n=$(wc -l < launches); [ $n = 1 ] && echo 0 >> starts && exit 137; [ $n = 2 ] && exit 74; "
      "exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 0);
  EXPECT_EQ(supervise(mission("exit 74", 1), {.relaunches = 2}), 74) << "at once: nothing is lost";
}

TEST_F(Supervisor, ALaunchThatBreaksOffElsewhereUsesUpNoTry) {
  auto work = mission("echo x >> launches; n=$(wc -l < launches); [ $n = 9 ] && exit 0; echo $n > done; kill -9 $$", 1);
  work.last_done = [this]() -> std::optional<Step> {
    std::int64_t step = 0;
    if (std::ifstream(folder_ / "done") >> step) return Step(step);
    return std::nullopt;
  };
  EXPECT_EQ(supervise(work, {.relaunches = 1}), 0);
  EXPECT_EQ(lines("launches"), 9u);
}

TEST_F(Supervisor, LaunchesThatBreakOffAtTheSameStepUseUpTheTries) {
  auto work = mission("echo x >> launches; exit 70", 1);
  work.last_done = [this] {
    return std::optional<Step>(std::min<std::int64_t>(2, static_cast<std::int64_t>(lines("launches"))));
  };
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 70);
  EXPECT_EQ(lines("launches"), 4u);
}

TEST_F(Supervisor, LaunchesThatNeverComeFurtherEndEvenIfEachBreaksOffElsewhere) {
  auto work = mission("echo x >> launches; exit 70", 1);
  work.last_done = [this] { return std::optional<Step>(static_cast<std::int64_t>(lines("launches"))); };
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 70);
  EXPECT_EQ(lines("launches"), 122u);
}

TEST_F(Supervisor, RanksOfOneMachineListenOnLoopbackUnlessTheUserChoseOtherwise) {
  const auto devices = [] {
    const auto variables = children_of({{"worker"}, "ck", 1, {}}, {}, "meet", "id").at(0).variables;
    return variables.contains("UCX_NET_DEVICES") ? variables.at("UCX_NET_DEVICES") : "";
  };
  const auto given = env("UCX_TLS");
  ::unsetenv("UCX_TLS");
  EXPECT_EQ(devices(), "lo");
  ::setenv("UCX_TLS", "tcp,self", 1);
  EXPECT_EQ(devices(), "lo");
  ::unsetenv("UCX_TLS");
  for (const char* name : {"UCX_NET_DEVICES", "UCX_TLS"}) {
    ::setenv(name, "x", 1);
    EXPECT_EQ(devices(), "") << name;
    ::unsetenv(name);
  }
  if (given) ::setenv("UCX_TLS", given->c_str(), 1);
}

TEST_F(Supervisor, GivesWordsForTheFirstStartUntilThereIsOne) {
  auto work = mission_with_starts(  // the first launch dies too early, the second one trains
      "echo \"x $*\" >> launches; n=$(wc -l < launches); [ $n = 2 ] && echo 0 >> starts; [ $n = 4 ] && exit 0; kill -9 "
      "$$");
  work.at_first = {"--afresh"};
  EXPECT_EQ(supervise(work, {.relaunches = 3}), 0);
  EXPECT_EQ(said(), (std::vector<std::string>{"x --afresh", "x --afresh", "x ", "x "}));
}

TEST_F(Supervisor, GoesBackByOneCheckpointAfterTwoFailedStartsFromTheSameStep) {
  for (int step : {50, 80, 100})
    checkpoint::save_as(folder_ / "checkpoints", 1, Step(step), checkpoint::make_sample(1));
  auto work = mission_with_starts(
      "echo \"x $*\" >> launches; case \"$2\" in 100) echo 80;; 80) echo 50;; *) echo "
      "100;; esac >> starts; kill -9 $$");
  work.below = "--below";
  EXPECT_EQ(supervise(work, {.relaunches = 5}), 137);
  EXPECT_EQ(said(),
            (std::vector<std::string>{"x ", "x ", "x --below 100", "x --below 100", "x --below 80", "x --below 80"}));
}

TEST_F(Supervisor, GoesBackNoFurtherThanThereAreCheckpoints) {
  checkpoint::save_as(folder_ / "checkpoints", 1, Step(100), checkpoint::make_sample(1));
  auto work = mission_with_starts("echo \"x $*\" >> launches; echo 100 >> starts; kill -9 $$");
  work.below = "--below";
  EXPECT_EQ(supervise(work, {.relaunches = 3}), 137);
  EXPECT_EQ(said(), (std::vector<std::string>(4, "x ")));
}

TEST_F(Supervisor, GoesOnFromTheNewestAgainOnceTheRunComesFurther) {
  for (int step : {50, 100}) checkpoint::save_as(folder_ / "checkpoints", 1, Step(step), checkpoint::make_sample(1));
  checkpoint::save_as(folder_ / "ready", 1, Step(150), checkpoint::make_sample(1));
  auto work = mission_with_starts(
      "echo \"x $*\" >> launches; n=$(wc -l < launches); [ $n = 4 ] && exit 0; [ $n = 3 ] && echo 50 >> starts && mv "
      "ready/step-* checkpoints; [ $n -lt 3 ] && echo 100 >> starts; kill -9 $$");
  work.below = "--below";
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 0);
  EXPECT_EQ(said(), (std::vector<std::string>{"x ", "x ", "x --below 100", "x "}));
}

TEST_F(Supervisor, TakesALostPeerForAConsequence) {
  EXPECT_EQ(supervise(mission("echo x >> launches; [ $DISTDL_RANK = 1 ] && exit 3; exit 69"), {}), 3);
  EXPECT_EQ(lines("launches"), 2u);
}

TEST_F(Supervisor, DoesNotRepeatWhatCannotSucceed) {
  EXPECT_EQ(supervise(mission("echo x >> launches; [ $DISTDL_RANK = 1 ] && exit 78; exit 69"), {}), 78);
  EXPECT_EQ(lines("launches"), 2u);  // one launch of two ranks
}

TEST_F(Supervisor, KillsRanksThatDoNotEndAfterAFailure) {
  Stopwatch watch;
  EXPECT_EQ(supervise(mission("[ $DISTDL_RANK = 1 ] && exit 74; exec sleep 60"), {.grace_seconds = 0.3}), 74);
  EXPECT_LT(watch.seconds(), 20);
}

TEST_F(Supervisor, ForwardsASignalAndReportsThatAllIsSaved) {
  auto work = mission("trap 'echo x >> told; exit 75' TERM; touch ready.$DISTDL_RANK; while :; do sleep 0.05; done");
  pid_t me = ::getpid();
  std::thread sender;
  // Block the signals before the sender thread exists, as a process that starts with a supervisor would.
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  sender = std::thread([&] {
    auto deadline = Deadline::after(20s);
    while (!deadline.expired() &&
           !(std::filesystem::exists(folder_ / "ready.0") && std::filesystem::exists(folder_ / "ready.1")))
      std::this_thread::sleep_for(10ms);
    ::kill(me, SIGUSR1);
  });
  EXPECT_EQ(supervise(work, {}), 75);
  sender.join();
  EXPECT_EQ(lines("told"), 2u);
}

TEST_F(Supervisor, ARankThatDoesNotListenYetLosesNothing) {
  auto work = mission(
      "[ $DISTDL_RANK = 1 ] && kill -TERM $PPID && exec sleep 60; trap 'exit 75' TERM; while :; do sleep 0.05; done");
  EXPECT_EQ(supervise(work, {}), 75);
}

/// Slurm's commands are scripts here; tests/cluster has a real one.
class UnderSlurm : public Supervisor {
 protected:
  void SetUp() override {
    Supervisor::SetUp();
    path_ = env("PATH").value_or("");
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    ::setenv("SLURM_JOB_END_TIME", "1900000000", 1);
    // Each node has a file while it answers, "up" is there while the controller does.
    for (const char* name : {"n1", "n2", "n3", "up"}) std::ofstream(folder_ / name) << name;
    command(
        "scontrol",
        "[ $2 = hostnames ] && exec printf 'n1\\nn2\\nn3\\n'\n[ -e up ] || { echo 'Unable to contact slurm controller' "
        ">&2; exit 1; }\n[ $1 = requeue ] && exec echo x >> requeued\necho \"JobId=1 $(cat record)\"");
    command("squeue",
            "case $* in *--steps*) echo batch; echo true; [ ! -e step ] || cat step; exit;; esac; echo '\"job_id\": 1, "
            "\"tres_req_str\": \"cpu=2,node=2\"'");
    std::ofstream(folder_ / "record") << "JobState=RUNNING Restarts=0";
  }
  void TearDown() override {
    ::unsetenv("SLURM_JOB_END_TIME");
    ::setenv("PATH", path_.c_str(), 1);
    Supervisor::TearDown();
  }
  void command(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << "#!/bin/sh\ncd " << folder_.string() << "\n" << text << "\n";
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }
  /// srun: a probe of a node ends well if it answers; a launch does this.
  void launches_do(const std::string& text) {
    command("srun",
            "case \"$*\" in *--mpi=none*) [ ! -e stop ] || kill -USR1 $PPID; for w; do case $w in --nodelist=*) [ -e "
            "${w#*=} ] || exit 1; case $* in */*) [ ! -e ${w#*=}-has-no-files ] || { echo there is no file; exit 1; "
            "};; esac; "
            "exit 0;; esac; done;; "
            "esac\necho \"$*\" | grep -o -e '--nodes=.*' | sed 's/--cpus.*--nodelist/--nodelist/; s/--cpus.*//' >> "
            "launches\nn=$(wc -l < launches)\n" +
                text);
  }
  Mission job() {
    auto work = mission("", 6);
    work.allocation = slurm::Allocation{.job = "1", .nodes = 3, .node_list = "n[1-3]"};
    return work;
  }
  std::string path_;
};

TEST_F(UnderSlurm, TakesTroubleOfSrunItselfForALostNode) {
  for (const char* code : {"1", "9", "66", "116", "127", "233"}) {
    std::filesystem::remove(folder_ / "launches");
    launches_do(std::string("exit ") + code);
    EXPECT_EQ(supervise(job(), {.relaunches = 1}), 71) << code;  // at once
    EXPECT_EQ(lines("launches"), 2u);
  }
}

TEST_F(UnderSlurm, TellsANodeWithoutTheProgramFromADamagedCheckpoint) {
  auto work = job();
  bool has_trained = true;
  work.starts = [&] { return std::vector<Step>(has_trained ? 1 : 0); };
  launches_do("[ $n != 1 ] || { touch n2-has-no-files; exit 2; }; exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 0, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 2u);
  EXPECT_THAT(said()[1], HasSubstr("--nodelist=n1,n3"));
  launches_do("touch n1-has-no-files; exit 2");  // too few are left
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0, .node_minutes = 0}), 71);
  EXPECT_EQ(lines("launches"), 4u);
  EXPECT_EQ(lines("requeued"), 0u) << "it would go on for ever";
  has_trained = false;
  launches_do("exit 2");
  EXPECT_EQ(supervise(work, {}), 2) << "they may never have had them";
  has_trained = true;
  for (const char* name : {"n1-has-no-files", "n2-has-no-files", "n2"}) std::filesystem::remove(folder_ / name);
  EXPECT_EQ(supervise(work, {}), 2) << "that n2 is silent is no answer";
}

TEST_F(UnderSlurm, AFolderThatCannotBeReadBetweenLaunchesEndsNoRun) {
  std::filesystem::create_directories(folder_ / "checkpoints");
  const std::string away = "rm -r checkpoints; touch checkpoints; ";
  launches_do(away + "exit 75");
  EXPECT_EQ(supervise(job(), {}), 75);
  EXPECT_EQ(lines("requeued"), 1u);
  std::filesystem::remove(folder_ / "checkpoints");
  launches_do("[ $n = 2 ] && { " + away + "exit 70; }; exit 0");
  EXPECT_EQ(supervise(job(), {.relaunches = 1, .pause_seconds = 0}), 0);
}

TEST_F(UnderSlurm, GoesOnWithTheNodesThatAnswerWithoutUsingUpATry) {
  launches_do("[ $n = 1 ] && rm n2 && exit 69; [ $n = 2 ] && touch n2 && rm n3 && exit 233; exit 0");
  EXPECT_EQ(supervise(job(), {.relaunches = 0, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 3u);
  EXPECT_THAT(said()[1], HasSubstr("--nodes=2 --ntasks=4 --nodelist=n1,n3 --overlap"));
  EXPECT_THAT(said()[2], HasSubstr("--nodes=2 --ntasks=4 --nodelist=n1,n2 --overlap"));
}

TEST_F(UnderSlurm, AsksFewerNodesForTheirShareOfTheGpus) {
  launches_do("[ $n = 1 ] && rm n2 && exit 69; [ $n = 2 ] && touch n2 && exit 69; exit 0");
  for (const auto& [all, two] : {std::pair("6", "4"), std::pair("a100:6", "a100:4"), std::pair("a:3,b:3", "a:3,b:3")}) {
    std::filesystem::remove(folder_ / "launches");
    auto work = job();
    work.allocation->gpus = all;
    EXPECT_EQ(supervise(work, {.relaunches = 2, .pause_seconds = 0}), 0);
    ASSERT_EQ(lines("launches"), 3u);
    EXPECT_THAT(said()[0], testing::Not(HasSubstr("--gpus"))) << "SLURM_GPUS says it";
    EXPECT_THAT(said()[1], HasSubstr(fmt::format("--overlap --gpus={} ", two)));
    EXPECT_THAT(said()[2], HasSubstr(fmt::format("--overlap --gpus={} ", all)));
  }
}

TEST_F(UnderSlurm, WhereARunFailsByItselfOnTheNodesThatAreLeftItsTriesEnd) {
  launches_do("rm -f n2; exit 70");
  EXPECT_EQ(supervise(job(), {.relaunches = 1, .pause_seconds = 0}), 70);
  EXPECT_EQ(lines("launches"), 3u);  // the first one lost a node
}

/// A node that is away after each launch, and back after the next.
constexpr const char* kFlapping =
    "[ $n != $last ] || exit 0; if [ -e n3 ]; then rm n3; touch n2; else rm n2; touch n3; fi; exit 69";

TEST_F(UnderSlurm, PausesAlsoBetweenLaunchesThatLoseANodeEach) {
  launches_do(std::string("last=5\n") + kFlapping);
  Stopwatch watch;
  EXPECT_EQ(supervise(job(), {.relaunches = 0, .pause_seconds = 0.2}), 0);
  EXPECT_GE(watch.seconds(), 0.2 + 0.4 + 0.8);
}

TEST_F(UnderSlurm, LaunchesThatLoseANodeEachDoNotGoOnForEver) {
  launches_do(std::string("last=9\n") + kFlapping);
  EXPECT_EQ(supervise(job(), {.relaunches = 0, .pause_seconds = 0, .lost_launches = 5}), 69);
  EXPECT_EQ(lines("launches"), 6u);
}

TEST_F(UnderSlurm, GivesANodeThatEndsRanksTimeToEndDoingSo) {
  launches_do("[ $n = 1 ] && { (sleep 1; touch calm) >/dev/null 2>&1 & }; [ -e calm ] || exit 137; exit 0");
  EXPECT_EQ(supervise(job(), {.relaunches = 3, .pause_seconds = 0.7}), 0);
  EXPECT_LE(lines("launches"), 4u);
}

TEST_F(UnderSlurm, EndsAnSrunWhoseStepIsOver) {
  launches_do(
      "[ $n != 1 ] || { echo \"$*\" | grep -o 'distdl-[0-9a-f]*' > step; (sleep 1.5; rm step) >/dev/null 2>&1 & exec "
      "sleep 60; }; exit 0");
  EXPECT_EQ(supervise(job(), {.relaunches = 1, .step_seconds = 0.1}), 0);
  EXPECT_EQ(lines("launches"), 2u);
}

TEST_F(UnderSlurm, NeedsNoTemporaryFolder) {
  launches_do("exit 0");
  const auto before = env("TMPDIR");
  ::setenv("TMPDIR", "/proc", 1);  // where nobody can make one
  EXPECT_EQ(supervise(job(), {}), 0);
  before ? ::setenv("TMPDIR", before->c_str(), 1) : ::unsetenv("TMPDIR");
}

TEST_F(UnderSlurm, TakesAnSrunThatCannotBeStartedForALaunchThatFailed) {
  auto work = job();
  work.allocation->node_list = "";  // no node is asked
  const auto run = [&] {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NPROC, &none);
    if (::getuid() == 0 && ::setuid(65534) != 0) std::_Exit(99);  // for root there is no such limit
    std::_Exit(supervise(work, {.relaunches = 1}));
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(71), "1 relaunches brought the run no further");
}

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

TEST_F(Supervisor, RefusesOptionsThatMakeNoSenseBeforeItStartsAnything) {
  auto work = mission("touch started");
  for (const Options& options :
       {Options{.relaunches = -1}, Options{.grace_seconds = -1}, Options{.grace_seconds = 1e18},
        Options{.grace_seconds = std::nan("")}, Options{.probe_seconds = 0}, Options{.node_minutes = -1},
        Options{.scheduler_minutes = std::nan("")}})
    EXPECT_THROW(supervise(work, options), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started"));
}

TEST_F(Supervisor, SweepsOnlyItsOwnLeftoversThatNobodyHolds) {
  const auto own = fmt::format("distdl-launch-{}-", ::getuid());
  auto make = [&](const std::string& name, mode_t mode) {
    std::filesystem::create_directories(folder_ / name / "launch");
    std::ofstream(folder_ / name / "launch" / "rank-0") << "x";
    EXPECT_EQ(::chmod((folder_ / name).c_str(), mode), 0);
  };
  for (const std::string& name :
       {own + "left", own + "held", std::string("distdl-launch-12345-other"), std::string("target")})
    make(name, 0700);
  make(own + "open", 0777);  // others may have put it there
  std::filesystem::create_symlink(folder_ / "target", folder_ / (own + "link"));
  std::ofstream(folder_ / (own + "file")) << "x";
  const FileDescriptor held(::open((folder_ / (own + "held")).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const auto before = env("TMPDIR");
  const auto through_link = folder_.string() + "-link";  // as a TMPDIR may be
  std::filesystem::create_directory_symlink(folder_, through_link);
  ::setenv("TMPDIR", through_link.c_str(), 1);
  {
    Rendezvous first, second;
    EXPECT_TRUE(std::filesystem::exists(first.folder()) && std::filesystem::exists(second.folder()));
  }
  before ? ::setenv("TMPDIR", before->c_str(), 1) : ::unsetenv("TMPDIR");
  std::filesystem::remove(through_link);
  std::set<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) kept.insert(entry.path().filename());
  EXPECT_EQ(kept, (std::set<std::string>{own + "held", own + "open", own + "link", own + "file",
                                         "distdl-launch-12345-other", "target"}));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "target" / "launch" / "rank-0"));
}

TEST(Verdict, FollowsTheExitCodeContract) {
  EXPECT_EQ(judge(0), Verdict::finished);
  EXPECT_EQ(judge(75), Verdict::resume_later);
  for (int code : {69, 70, 71, 137, 139}) EXPECT_EQ(judge(code), Verdict::relaunch) << code;
  for (int code : {1, 2, 3, 4, 64, 73, 74, 78}) EXPECT_EQ(judge(code), Verdict::give_up) << code;
}

TEST(Children, UnderSlurmIsOneSrunForAllRanks) {
  slurm::Allocation job{.job = "1", .restart = 0, .nodes = 3, .tasks = 3, .cpus_per_task = 2};
  ::setenv("SLURM_JOB_END_TIME", "1900000000", 1);
  auto children = children_of({{"distdl", "worker", "job.toml"}, "ck", 3, job}, {.grace_seconds = 9.5}, "", "");
  ::unsetenv("SLURM_JOB_END_TIME");
  ASSERT_EQ(children.size(), 1u);
  const auto& words = children[0].command;
  auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  EXPECT_EQ(words[0], "srun");
  for (auto word : {"--mpi=pmix", "--nodes=3", "--ntasks=3", "--cpus-per-task=2", "--kill-on-bad-exit=0", "--wait=10"})
    EXPECT_TRUE(has(word)) << word;
  EXPECT_EQ(children[0].variables.at("DISTDL_END_OF_JOB"), "1900000000");
}
}  // namespace
}  // namespace distdl::agent
