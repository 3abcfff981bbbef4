// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <thread>
#include <tuple>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "tests/launch/supervisor_fixture.hpp"
#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/messages.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/version.hpp>

namespace distdl::launch {
namespace {
using ::testing::HasSubstr;

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
    command("scontrol",
            "[ $2 = hostnames ] && exec printf 'n1\\nn2\\nn3\\n'\n"
            "case $* in *' 1_3') ;; *) echo Invalid job id >&2; exit 1;; esac\n"
            "[ -e up ] || { echo 'Unable to contact slurm controller' >&2; exit 1; }\n"
            "[ $1 = requeue ] && exec echo x >> requeued\necho \"JobId=1 $(cat record)\"");
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
  LaunchSpec job() {
    auto work = spec("", 6);
    work.allocation = slurm::Allocation{.job = "1", .nodes = 3, .node_list = "n[1-3]", .name = "1_3"};
    return work;
  }
  /// Two ranks on each of two nodes; the third node is a spare.
  LaunchSpec job_with_spare() {
    auto work = job();
    work.agents = true;
    work.spares = 1;
    work.min_nodes = 2;
    work.ranks = 4;
    work.worker.emplace_back("worker");
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
  EXPECT_EQ(supervise(work, {.relaunches = 0, .node_minutes = 0}), 2) << "they may never have had them";
  has_trained = true;
  for (const char* name : {"n1-has-no-files", "n2-has-no-files", "n2"}) std::filesystem::remove(folder_ / name);
  EXPECT_EQ(supervise(work, {}), 2);
  EXPECT_EQ(lines("launches"), 6u) << "that n2 is silent is no answer";
}

TEST_F(UnderSlurm, AFolderThatCannotBeReadBetweenLaunchesEndsNoRun) {
  std::filesystem::create_directories(folder_ / "checkpoints");
  const std::string away = "rm -r checkpoints; touch checkpoints; ";
  launches_do(away + "exit 75");
  EXPECT_EQ(supervise(job(), {}), 75);
  EXPECT_EQ(lines("requeued"), 1u);
  std::filesystem::remove(folder_ / "checkpoints");
  launches_do("[ $n = 4 ] && exit 0; " + away + "exit 70");
  auto work = job();
  work.starts = [this] { return std::vector<Step>(lines("launches"), Step(5)); };  // two in a row from there
  EXPECT_EQ(supervise(work, {.relaunches = 2, .pause_seconds = 0}), 0);
}

TEST_F(UnderSlurm, GoesOnWithTheNodesThatAnswerWithoutUsingUpATry) {
  launches_do("[ $n = 1 ] && rm n2 && exit 69; [ $n = 2 ] && touch n2 && rm n3 && exit 233; exit 0");
  EXPECT_EQ(supervise(job(), {.relaunches = 0, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 3u);
  EXPECT_THAT(said()[1], HasSubstr("--nodes=2 --ntasks=4 --nodelist=n1,n3 --overlap"));
  EXPECT_THAT(said()[2], HasSubstr("--nodes=2 --ntasks=4 --nodelist=n1,n2 --overlap"));
}

TEST_F(UnderSlurm, ANodeWithWrongBitsIsLeftOutOfTheNextLaunch) {
  auto work = job();
  work.wrong_nodes = [this] { return std::vector<std::string>(lines("launches") > 0 ? 1 : 0, "n2"); };
  launches_do("[ $n = 1 ] && exit 72; exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 2u);
  EXPECT_THAT(said()[1], HasSubstr("--nodes=2 --ntasks=4 --nodelist=n1,n3 --overlap"));
}

TEST_F(UnderSlurm, WrongNodesThatTheJobDoesNotHaveChangeNothing) {
  auto work = job();
  work.wrong_nodes = [] { return std::vector<std::string>{"n8", "n9"}; };
  launches_do("[ $n = 1 ] && exit 72; exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0}), 0);
  EXPECT_EQ(lines("requeued"), 0u);
  EXPECT_THAT(said(), testing::ElementsAre(HasSubstr("--nodes=3 "), HasSubstr("--nodes=3 ")));
  std::filesystem::remove(folder_ / "launches");
  work.wrong_nodes = [] { return std::vector<std::string>{"n8", "n2"}; };
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("wrong bits on n2; continuing with n1, n3"));
}

TEST_F(UnderSlurm, ASpareTakesThePlaceOfANodeThatTheNextLaunchLacks) {
  auto work = job_with_spare();
  work.wrong_nodes = [this] { return std::vector<std::string>(lines("launches") == 2 ? 1 : 0, "n2"); };
  launches_do("[ $n = 1 ] && rm n3 && exit 69; [ $n = 2 ] && touch n3 && exit 72; exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 3u);
  for (std::size_t i : {1, 2}) {
    EXPECT_THAT(said()[i], HasSubstr(i == 1 ? "--nodelist=n1,n2 " : "--nodelist=n1,n3 "));
    EXPECT_THAT(said()[i], HasSubstr(" agent --set run.spares=0 --launch "));
    EXPECT_THAT(said()[i], HasSubstr(" --ranks 4 --min-nodes 2"));
  }
}

TEST_F(UnderSlurm, ARunGoesOnWithoutItsSpares) {
  command("squeue", "case $* in *--steps*) exit;; esac; echo '\"job_id\": 1, \"tres_req_str\": \"cpu=6,node=3\"'");
  auto work = job_with_spare();
  launches_do("[ $n = 1 ] && rm n3 && exit 69; exit 0");
  EXPECT_EQ(supervise(work, {.relaunches = 0, .pause_seconds = 0, .node_minutes = 0}), 0);
  ASSERT_EQ(lines("launches"), 2u);
  EXPECT_THAT(said()[1], HasSubstr("--nodelist=n1,n2 "));
}

TEST_F(UnderSlurm, SparesAreFewerOnFewerNodes) {
  auto work = job();
  work.worker.push_back("worker");
  work.allocation->nodes = 5;
  work.spares = 2;
  work.ranks = 6;
  for (const auto& [nodes, spares, ranks] :
       {std::tuple(5, 2, 6), std::tuple(4, 1, 6), std::tuple(3, 0, 6), std::tuple(2, 0, 4)}) {
    const auto next = on_nodes(work, std::vector<std::string>(static_cast<std::size_t>(nodes), "n"));
    EXPECT_EQ(next.spares, spares) << nodes;
    EXPECT_EQ(next.ranks, ranks) << nodes;
    EXPECT_EQ(next.worker.back(), nodes == 5 ? "worker" : fmt::format("run.spares={}", spares));
  }
  work.agents = true;
  EXPECT_THAT(processes_of(work, {}, "", "id").front().command, testing::Contains("--cpus-per-task=2"))
      << "as many ranks on each node as when it has no spares";
}

TEST_F(UnderSlurm, WithoutEnoughNodesThatComputeRightTheJobIsRequeued) {
  auto work = job();
  work.wrong_nodes = [] { return std::vector<std::string>{"n2", "n3"}; };  // the job needs two
  launches_do("exit 72");
  EXPECT_EQ(supervise(work, {.relaunches = 1, .pause_seconds = 0}), 75);
  EXPECT_EQ(lines("launches"), 1u);
  EXPECT_EQ(lines("requeued"), 1u);
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

/// An srun that is killed after the agents have decided this.
constexpr const char* kKilledAfterDecision = R"([ $n = 1 ] || exit 0
id=$(echo "$*" | sed 's/.*--launch \([0-9a-f]*\).*/\1/')
mkdir -p run/launches/$id
sed "s/\"ID\"/\"$id\"/" launch-record > run/launches/$id/launch.json
cp decision run/launches/$id/1.json
exit 137)";

TEST_F(UnderSlurm, AStepThatEndsBecauseALostNodeIsBackUsesUpNoTry) {
  agent::LaunchRecord record;
  record.id = "ID";
  record.version = DISTDL_VERSION;
  record.job = "[train]";
  record.arguments = {"job.toml"};
  record.secret = "secret";
  for (const char* host : {"n1", "n2", "n3"}) record.agents.push_back({host, "10.0.0.1 4000", ""});
  std::ofstream(folder_ / "launch-record") << to_text(record);
  std::vector<std::string> causes;
  auto work = job();
  work.checkpoints = folder_ / "run" / "checkpoints";
  work.agents = true;
  work.min_nodes = 2;
  work.worker.push_back("worker");
  work.events.ended = [&](int, const std::string& cause, bool) { causes.push_back(cause); };
  launches_do(kKilledAfterDecision);
  agent::Decision decision;
  decision.generation = Generation(1);
  decision.members = {agent::NodeId(0), agent::NodeId(1)};
  std::ofstream(folder_ / "decision") << to_text(decision);
  EXPECT_EQ(supervise(work, {.relaunches = 0, .pause_seconds = 0}), 0);
  ASSERT_EQ(lines("launches"), 2u);
  EXPECT_THAT(said()[1], HasSubstr("--nodelist=n1,n2,n3 "));
  EXPECT_THAT(causes, testing::ElementsAre(HasSubstr("after the loss of n3"), "ok"));
  decision.spares = {agent::NodeId(2)};
  std::ofstream(folder_ / "decision") << to_text(decision);
  std::filesystem::remove(folder_ / "launches");
  EXPECT_EQ(supervise(work, {.relaunches = 0, .pause_seconds = 0}), 137) << "no node was lost";
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

bool others_may_pass(const std::filesystem::path& folder) {
  const auto may = std::filesystem::status(folder).permissions() & std::filesystem::perms::others_exec;
  return may != std::filesystem::perms::none && (folder == folder.root_path() || others_may_pass(folder.parent_path()));
}

TEST_F(UnderSlurm, RelaunchesNothingWhereNoProcessCanBeStarted) {
  if (::getuid() == 0 && !others_may_pass(folder_)) GTEST_SKIP() << "no other user can look into " << folder_;
  auto work = job();
  work.allocation->node_list = "";  // no node is asked
  const auto run = [&] {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NPROC, &none);
    if (::getuid() == 0 && ::setuid(65534) != 0) std::_Exit(99);  // for root there is no such limit
    try {
      std::_Exit(supervise(work, {.relaunches = 1}));
    } catch (const ResourceError& error) {
      fmt::print(stderr, "{}", error.what());
      std::_Exit(static_cast<int>(error.exit_code()));
    }
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(78), "cannot start \"srun\".*ulimit -u");
}

TEST_F(UnderSlurm, DoesNotWaitForSrunWhenTheAgentsHaveAgreedOnTheEnd) {
  auto work = job();
  work.checkpoints = folder_ / "run" / "checkpoints";
  work.worker.emplace_back("worker");
  work.agents = true;
  agent::Decision decision;
  decision.generation = Generation(1);
  decision.end = 75;
  std::ofstream(folder_ / "end") << agent::to_text(decision);
  launches_do(
      "id=${*##*--launch }; id=${id%% *}; mkdir -p run/launches/$id; cp end run/launches/$id/1.json; exec sleep 60");
  const Stopwatch watch;
  EXPECT_EQ(supervise(work, {}), 75);
  EXPECT_LT(watch.seconds(), 30);
  EXPECT_EQ(lines("requeued"), 1u);
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
