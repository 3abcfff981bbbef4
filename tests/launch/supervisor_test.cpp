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
#include <sys/stat.h>
#include <unistd.h>

#include "tests/checkpoint/sample.hpp"
#include "tests/launch/supervisor_fixture.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/rendezvous.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(Supervisor, GivesEachRankItsIdentity) {
  EXPECT_EQ(
      supervise(spec("echo $DISTDL_RANK $DISTDL_WORLD_SIZE > rank.$DISTDL_RANK; test -d $DISTDL_RENDEZVOUS", 3), {}),
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
  EXPECT_EQ(supervise(spec(text), {}), 0);
  EXPECT_EQ(lines("launches"), 2u);
}

TEST_F(Supervisor, GivesUpAfterRepeatedLossesWithoutProgress) {
  EXPECT_EQ(supervise(spec("echo x >> launches; exit 69", 1), {.relaunches = 2}), 69);
  EXPECT_EQ(lines("launches"), 3u);
}

TEST_F(Supervisor, ALaunchThatBeginsFurtherOnIsProgressWithoutACheckpoint) {
  std::ofstream(folder_ / "starts") << "5000\n";  // of an earlier command
  auto work = spec_with_starts(
      "echo x >> launches; n=$(wc -l < launches); [ $n = 6 ] && exit 0; echo ${n}00 >> starts; kill -9 $$");
  EXPECT_EQ(supervise(work, {.relaunches = 1}), 0);
  EXPECT_EQ(lines("launches"), 6u);
}

TEST_F(Supervisor, LaunchesThatBeginWhereOthersDidAreNoProgress) {
  auto work = spec_with_starts(  // at 0, 100, 0, 100, ...
      "echo x >> launches; n=$(wc -l < launches); [ $n = 12 ] && exit 0; echo $(((n - 1) % 2 * 100)) >> starts; kill "
      "-9 "
      "$$");
  EXPECT_EQ(supervise(work, {.relaunches = 3}), 137);
  EXPECT_EQ(lines("launches"), 5u);  // the second one had made progress
}

TEST_F(Supervisor, ADiskThatRefusesARunThatHasBegunIsTriedAgain) {
  auto work = spec_with_starts(
      "echo x >> launches; n=$(wc -l < launches); [ $n = 1 ] && echo 0 >> starts && exit 137; [ $n = 2 ] && exit 74; "
      "exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 0);
  EXPECT_EQ(supervise(spec("exit 74", 1), {.relaunches = 2}), 74) << "at once: nothing is lost";
}

TEST_F(Supervisor, ALaunchThatBreaksOffElsewhereUsesUpNoTry) {
  auto work = spec("echo x >> launches; n=$(wc -l < launches); [ $n = 9 ] && exit 0; echo $n > done; kill -9 $$", 1);
  work.last_done = [this]() -> std::optional<Step> {
    std::int64_t step = 0;
    if (std::ifstream(folder_ / "done") >> step) return Step(step);
    return std::nullopt;
  };
  EXPECT_EQ(supervise(work, {.relaunches = 1}), 0);
  EXPECT_EQ(lines("launches"), 9u);
}

TEST_F(Supervisor, LaunchesThatBreakOffAtTheSameStepUseUpTheTries) {
  auto work = spec("echo x >> launches; exit 70", 1);
  work.last_done = [this] {
    return std::optional<Step>(std::min<std::int64_t>(2, static_cast<std::int64_t>(lines("launches"))));
  };
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 70);
  EXPECT_EQ(lines("launches"), 4u);
}

TEST_F(Supervisor, LaunchesThatNeverComeFurtherEndEvenIfEachBreaksOffElsewhere) {
  auto work = spec("echo x >> launches; exit 70", 1);
  work.last_done = [this] { return std::optional<Step>(static_cast<std::int64_t>(lines("launches"))); };
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 70);
  EXPECT_EQ(lines("launches"), 122u);
}

TEST_F(Supervisor, RanksOfOneMachineListenOnLoopbackUnlessTheUserChoseOtherwise) {
  const auto devices = [] {
    const auto variables = processes_of({{"worker"}, "ck", 1, {}}, {}, "meet", "id").at(0).variables;
    return variables.contains("UCX_NET_DEVICES") ? variables.at("UCX_NET_DEVICES") : "";
  };
  const auto given = env("UCX_TLS"), given_devices = env("UCX_NET_DEVICES");
  ::unsetenv("UCX_TLS");
  ::unsetenv("UCX_NET_DEVICES");
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
  if (given_devices) ::setenv("UCX_NET_DEVICES", given_devices->c_str(), 1);
}

TEST_F(Supervisor, GivesWordsForTheFirstStartUntilThereIsOne) {
  auto work = spec_with_starts(  // the first launch dies too early, the second one trains
      "echo \"x $*\" >> launches; n=$(wc -l < launches); [ $n = 2 ] && echo 0 >> starts; [ $n = 4 ] && exit 0; kill -9 "
      "$$");
  work.at_first = {"--afresh"};
  EXPECT_EQ(supervise(work, {.relaunches = 3}), 0);
  EXPECT_EQ(said(), (std::vector<std::string>{"x --afresh", "x --afresh", "x ", "x "}));
}

TEST_F(Supervisor, GoesBackByOneCheckpointAfterTwoFailedStartsFromTheSameStep) {
  for (int step : {50, 80, 100})
    checkpoint::save_as(folder_ / "checkpoints", 1, Step(step), checkpoint::make_sample(1));
  auto work = spec_with_starts(
      "echo \"x $*\" >> launches; case \"$2\" in 100) echo 80;; 80) echo 50;; *) echo "
      "100;; esac >> starts; kill -9 $$");
  work.below = "--below";
  EXPECT_EQ(supervise(work, {.relaunches = 5}), 137);
  EXPECT_EQ(said(),
            (std::vector<std::string>{"x ", "x ", "x --below 100", "x --below 100", "x --below 80", "x --below 80"}));
}

TEST_F(Supervisor, GoesBackByOneCheckpointAtOnceAfterAPoisonStep) {
  for (int step : {50, 100}) checkpoint::save_as(folder_ / "checkpoints", 1, Step(step), checkpoint::make_sample(1));
  auto work = spec_with_starts("echo \"x $*\" >> launches; [ \"$2\" ] && exit 0; echo 100 >> starts; kill -9 $$");
  work.below = "--below";
  work.is_poisoned = [] { return true; };
  EXPECT_EQ(supervise(work, {.relaunches = 3}), 0);
  EXPECT_EQ(said(), (std::vector<std::string>{"x ", "x --below 100"}));
}

TEST_F(Supervisor, GoesBackNoFurtherThanThereAreCheckpoints) {
  checkpoint::save_as(folder_ / "checkpoints", 1, Step(100), checkpoint::make_sample(1));
  auto work = spec_with_starts("echo \"x $*\" >> launches; echo 100 >> starts; kill -9 $$");
  work.below = "--below";
  EXPECT_EQ(supervise(work, {.relaunches = 3}), 137);
  EXPECT_EQ(said(), (std::vector<std::string>(4, "x ")));
}

TEST_F(Supervisor, GoesOnFromTheNewestAgainOnceTheRunComesFurther) {
  for (int step : {50, 100}) checkpoint::save_as(folder_ / "checkpoints", 1, Step(step), checkpoint::make_sample(1));
  checkpoint::save_as(folder_ / "ready", 1, Step(150), checkpoint::make_sample(1));
  auto work = spec_with_starts(
      "echo \"x $*\" >> launches; n=$(wc -l < launches); [ $n = 4 ] && exit 0; [ $n = 3 ] && echo 50 >> starts && mv "
      "ready/step-* checkpoints; [ $n -lt 3 ] && echo 100 >> starts; kill -9 $$");
  work.below = "--below";
  EXPECT_EQ(supervise(work, {.relaunches = 2}), 0);
  EXPECT_EQ(said(), (std::vector<std::string>{"x ", "x ", "x --below 100", "x "}));
}

TEST_F(Supervisor, TakesALostPeerForAConsequence) {
  EXPECT_EQ(supervise(spec("echo x >> launches; [ $DISTDL_RANK = 1 ] && exit 3; exit 69"), {}), 3);
  EXPECT_EQ(lines("launches"), 2u);
}

TEST_F(Supervisor, DoesNotRepeatWhatCannotSucceed) {
  EXPECT_EQ(supervise(spec("echo x >> launches; [ $DISTDL_RANK = 1 ] && exit 78; exit 69"), {}), 78);
  EXPECT_EQ(lines("launches"), 2u);  // one launch of two ranks
  EXPECT_EQ(supervise(spec("echo x >> launches; [ $DISTDL_RANK = 1 ] && exit 78; exit 72"), {}), 78);
  EXPECT_EQ(lines("launches"), 4u);
}

TEST_F(Supervisor, KillsRanksThatDoNotEndAfterAFailure) {
  Stopwatch watch;
  EXPECT_EQ(supervise(spec("[ $DISTDL_RANK = 1 ] && exit 74; exec sleep 60"), {.grace_seconds = 0.3}), 74);
  EXPECT_LT(watch.seconds(), 20);
}

TEST_F(Supervisor, ForwardsASignalAndReportsThatAllIsSaved) {
  auto work = spec("trap 'echo x >> told; exit 75' TERM; touch ready.$DISTDL_RANK; while :; do sleep 0.05; done");
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
  auto work = spec(
      "[ $DISTDL_RANK = 1 ] && kill -TERM $PPID && exec sleep 60; trap 'exit 75' TERM; while :; do sleep 0.05; done");
  EXPECT_EQ(supervise(work, {}), 75);
}

TEST_F(Supervisor, RefusesOptionsThatMakeNoSenseBeforeItStartsAnything) {
  auto work = spec("touch started");
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

TEST_F(Supervisor, ARankThatASignalMetBeforeItListenedAsksToStop) {
  for (const char* name : {"TERM", "INT", "USR1", "USR2"}) {
    std::filesystem::remove(folder_ / "launches");
    auto work = spec(std::string("echo x >> launches; kill -") + name + " $$", 1);
    EXPECT_EQ(supervise(work, {.relaunches = 3}), 75) << name;
    EXPECT_EQ(lines("launches"), 1u) << name;
  }
}

TEST(Processes, UnderSlurmIsOneSrunForAllRanks) {
  slurm::Allocation job{.job = "1", .restart = 0, .nodes = 3, .tasks = 3, .cpus_per_task = 2};
  const slurm::JobLimits limits{std::chrono::system_clock::from_time_t(1900000000)};
  auto processes =
      processes_of({{"distdl", "worker", "job.toml"}, "ck", 3, job, limits}, {.grace_seconds = 9.5}, "", "");
  ASSERT_EQ(processes.size(), 1u);
  const auto& words = processes[0].command;
  auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  EXPECT_EQ(words[0], "srun");
  for (auto word : {"--mpi=pmix", "--nodes=3", "--ntasks=3", "--cpus-per-task=2", "--kill-on-bad-exit=0", "--wait=10"})
    EXPECT_TRUE(has(word)) << word;
  EXPECT_EQ(processes[0].variables.at("DISTDL_END_OF_JOB"), "1900000000");
}

TEST(Processes, AStepOnEachNodeLeavesOutOthers) {
  slurm::Allocation job{.job = "1", .nodes = 3, .tasks = 6, .cpus_per_task = 2, .node_list = "n[1-3]", .gpus = "6"};
  LaunchSpec spec{{"distdl", "worker", "job.toml"}, "ck", 6, job};
  spec.mpi = "none";
  const auto on_two = on_nodes(spec, {"n1", "n3"});
  EXPECT_EQ(on_two.ranks, 4);
  EXPECT_EQ(on_two.allocation->nodes, 2);
  EXPECT_EQ(on_two.allocation->node_list, "n1,n3");
  EXPECT_EQ(on_two.allocation->gpus, "4");
  const auto words = srun_on_each_node(on_two, "look", {"distdl", "preflight"});
  for (auto word : {"--job-name=look", "--mpi=none", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1",
                    "--cpus-per-task=4", "--nodelist=n1,n3", "--gpus=4", "distdl", "preflight"})
    EXPECT_EQ(std::count(words.begin(), words.end(), word), 1) << word;
}
}  // namespace
}  // namespace distdl::launch
