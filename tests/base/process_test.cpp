// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/process.hpp>
#include <distdl/base/program_path.hpp>
#include <distdl/base/slurm_variables.hpp>

namespace distdl {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

int code_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return exit_code_from_status(status);
}

CommandResult shell(const std::string& text, Milliseconds timeout = 20s) {
  return run_command({"sh", "-c", text}, timeout);
}

TEST(RunCommand, CollectsOutputErrorsAndCode) {
  auto result = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
}

TEST(RunCommand, TakesMoreOutputThanAPipeHolds) {
  auto result = shell("head -c 1000000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero >&2");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, std::string(1'000'000, 'x'));
  EXPECT_EQ(result.errors.size(), 300'000u);
}

TEST(RunCommand, HandsOverItsInput) {
  const std::string text(1'000'000, 'x');
  EXPECT_EQ(run_command({"cat"}, 20s, {}, text).output, text);
  EXPECT_EQ(run_command({"cat"}, 20s, {}, "").output, "");
}

TEST(RunCommand, ReportsASignalAsShellsDo) {
  EXPECT_EQ(shell("kill -TERM $$").exit_code, 128 + SIGTERM);
}

TEST(RunCommand, AProgramThatIsNotThereHasCode127) {
  EXPECT_EQ(run_command({"distdl-no-such-program"}, 5s).exit_code, 127);
}

TEST(RunCommand, EndsAtItsTimeoutWithWhatWasPrinted) {
  Stopwatch watch;
  auto result = shell("echo early; exec sleep 60", 300ms);
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_EQ(result.output, "early\n");
  EXPECT_LT(watch.seconds(), 20);
}

TEST(RunCommand, AsksToEndBeforeItKills) {
  const std::string file = ::testing::TempDir() + "/run_command_" + std::to_string(::getpid());
  const auto asked = "trap 'echo x >> " + file + "; $END' TERM; while :; do sleep 0.05; done";
  for (const std::string end : {"exit", ":"})
    EXPECT_EQ(run_command({"sh", "-c", "END=" + end + "; " + asked}, 1s, end == "exit" ? 20s : 3s).exit_code, 124);
  std::string text;
  std::getline(std::ifstream(file), text, '\0');
  EXPECT_EQ(text, "x\nx\n");
  ::unlink(file.c_str());
}

TEST(RunCommand, TimeoutHoldsForAChildThatClosesItsOutput) {
  Stopwatch watch;
  EXPECT_EQ(shell("exec sleep 60 >&- 2>&-", 300ms).exit_code, 124);
  EXPECT_LT(watch.seconds(), 20);
}

TEST(StartProcess, GivesItsVariablesToTheChildOnly) {
  std::string file = ::testing::TempDir() + "/start_process_" + std::to_string(::getpid());
  pid_t pid = start_process({"sh", "-c", "printf '%s %s' \"$DISTDL_TEST_CHILD\" \"$HOME\" > " + file},
                            {{"DISTDL_TEST_CHILD", "a=b c"}, {"HOME", "/elsewhere"}});
  EXPECT_EQ(code_of(pid), 0);
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_EQ(text, "a=b c /elsewhere");
  ::unlink(file.c_str());
}

TEST(StartProcess, TheChildInheritsNoVariablesOfSlurm) {
  const std::vector<std::string> names{"SLURM_NTASKS", "SBATCH_TIMELIMIT", "SQUEUE_PARTITION", "SRUN_CPUS_PER_TASK"};
  for (const auto& name : names) ::setenv(name.c_str(), "1", 1);
  const auto result = run_command({"sh", "-c", "env | grep -E '^(SLURM|SBATCH|SQUEUE|SRUN)_' | sort"}, 20s, {}, {},
                                  {{"SLURM_CONF", "/etc/slurm.conf"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(result.output, "SLURM_CONF=/etc/slurm.conf\nSLURM_NTASKS=2\n") << "those alone that it is meant to get";
  EXPECT_EQ(slurm_variables().at("SBATCH_TIMELIMIT"), "1");
  for (const auto& name : names) ::unsetenv(name.c_str());
}

TEST(StartProcess, TheInputOfThisProcessIsNotTheChilds) {
  const int own = ::dup(STDIN_FILENO);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ASSERT_EQ(::write(pipe[1], "next\n", 5), 5);
  ::close(pipe[1]);
  ASSERT_EQ(::dup2(pipe[0], STDIN_FILENO), STDIN_FILENO);
  EXPECT_EQ(shell("cat").output, "");
  EXPECT_EQ(code_of(start_process({"sh", "-c", "! read -r line"}, {})), 0);
  char left[8];
  EXPECT_EQ(::read(STDIN_FILENO, left, sizeof left), 5) << "as the next line of a list of jobs";
  ::dup2(own, STDIN_FILENO);
  ::close(own);
  ::close(pipe[0]);
}

TEST(IsOnPath, FindsProgramsThatCanBeRun) {
  EXPECT_TRUE(is_on_path("sh"));
  EXPECT_FALSE(is_on_path("no-such-program-of-distdl"));
}

TEST(StartProcess, UnblocksSignalsInTheChild) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  pid_t pid = start_process({"sh", "-c", "kill -TERM $$; exit 3"}, {});
  EXPECT_EQ(code_of(pid), 128 + SIGTERM);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(StartProcess, TheChildDiesWithItsParent) {
  std::string file = ::testing::TempDir() + "/orphan_" + std::to_string(::getpid());
  pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    pid_t child = start_process({"sleep", "60"}, {});
    std::ofstream(file) << child << std::endl;
    ::kill(::getpid(), SIGKILL);
  }
  EXPECT_EQ(code_of(parent), 128 + SIGKILL);
  pid_t child = 0;
  std::ifstream(file) >> child;
  ::unlink(file.c_str());
  ASSERT_GT(child, 0);
  // A zombie counts as dead: whoever adopted it need not have reaped it yet.
  auto is_gone = [&] {
    std::string status(
        (std::istreambuf_iterator<char>(std::ifstream("/proc/" + std::to_string(child) + "/stat").rdbuf())), {});
    return status.empty() || status.find(") Z ") != std::string::npos;
  };
  for (auto deadline = Deadline::after(10s); !is_gone() && !deadline.expired();) ::usleep(2000);
  EXPECT_TRUE(is_gone());
}
}  // namespace
}  // namespace distdl
