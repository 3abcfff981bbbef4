// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <thread>
#include <tuple>

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/launch/under_slurm_fixture.hpp"
#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/messages.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/version.hpp>

namespace distdl::launch {
namespace {
using ::testing::HasSubstr;

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

/// A port whose queue of connections is full: the kernel answers no more of them, as a host that is gone.
class SilentPort {
 public:
  SilentPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listening_.get(), any, length), 0);
    EXPECT_EQ(::listen(listening_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listening_.get(), any, &length), 0);
    port_ = ntohs(address.sin_port);
    for (const auto& each : waiting_) ::connect(each.get(), any, length);
  }
  int port() const { return port_; }

 private:
  static FileDescriptor socket() { return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)); }
  FileDescriptor listening_ = socket();
  std::array<FileDescriptor, 4> waiting_{socket(), socket(), socket(), socket()};
  int port_ = 0;
};

TEST_F(UnderSlurm, DoesNotWaitForSrunWhenARankHasFailedBecauseItsNodeIsGone) {
  const SilentPort silent;
  command("scontrol",
          "[ $2 = hostnames ] && exec printf 'n1\\nn2\\nn3\\n'\n[ $2 = config ] && exec echo SlurmdPort = 1\n"
          "[ $2 = node ] && exec printf 'NodeName=n1 NodeAddr=127.0.0.1\\nNodeName=n2 NodeAddr=127.0.0.1 Port=2\\n"
          "NodeName=n3 NodeAddr=127.0.0.1 Port=" +
              std::to_string(silent.port()) + "\\n'\necho \"JobId=1 $(cat record)\"");
  launches_do("[ $n = 1 ] && exec sleep 60; exit 0");
  auto work = job();
  work.node_lost = Milliseconds(1000);
  work.has_failed = [] { return true; };
  std::vector<std::string> causes;
  work.events.ended = [&](int, const std::string& cause, bool) { causes.push_back(cause); };
  bool lost = false;
  work.events.lost_node = [&] { lost = true; };
  const Stopwatch watch;
  EXPECT_EQ(supervise(work, {.relaunches = 0}), 0);
  EXPECT_LT(watch.seconds(), 9) << "run.grace_seconds and 5 s more";
  EXPECT_EQ(causes.front(), "the host of n3 does not answer");
  EXPECT_THAT(said().back(), HasSubstr("--nodelist=n1,n2"));
  EXPECT_TRUE(lost);
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
}  // namespace
}  // namespace distdl::launch
