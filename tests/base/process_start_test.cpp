// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/process_start.hpp>

namespace distdl {
namespace {
/// Whether `claim` holds in a process of its own.
bool holds_in_child(const std::function<bool()>& claim) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(claim() ? 0 : 1);
  int status = -1;
  return ::waitpid(pid, &status, 0) == pid && exit_code_from_status(status) == 0;
}

TEST(ProcessStart, ClosedStandardStreamsAreNeverAnotherFile) {
  EXPECT_TRUE(holds_in_child([] {
    for (int descriptor : {0, 1, 2}) ::close(descriptor);
    before_libraries();
    const bool output_fails = ::write(STDOUT_FILENO, "x", 1) < 0 && errno == EBADF;
    return output_fails && ::write(STDERR_FILENO, "x", 1) == 1 && ::open("/dev/null", O_RDONLY) > 2;
  }));
}

TEST(ProcessStart, SignalsOfWritingBecomeErrorsHereButNotInOtherPrograms) {
  EXPECT_TRUE(holds_in_child([] {
    prepare_process();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    ::close(ends[0]);
    const bool fails = ::write(ends[1], "x", 1) < 0 && errno == EPIPE;
    return fails && run_command({"sh", "-c", "kill -PIPE $$; exit 0"}, Milliseconds(20000)).exit_code == 128 + SIGPIPE;
  }));
}

TEST(ProcessStart, HangupIsWhatItWasForWhoeverStartedTheProgram) {
  for (const bool ignored : {true, false})
    EXPECT_TRUE(holds_in_child([&] {
      ::signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
      before_libraries();
      ::signal(SIGHUP, [](int) {});  // as UCX does
      prepare_process();
      return hangup_is_ignored() == ignored;
    }));
}

TEST(ProcessStart, SignalsBeforeARunBeginsEndItWithTheCodeOfAStop) {
  const auto code_after = [](int number, std::vector<const char*> words, bool ignored = false) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::signal(number, ignored ? SIG_IGN : SIG_DFL);
      answer_early_stops(static_cast<int>(words.size()), words.data());
      ::raise(number);
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    return exit_code_from_status(status);
  };
  for (const int number : kStopSignals)
    for (const char* command : {"run", "worker", "agent", "sweep"})
      EXPECT_EQ(code_after(number, {"distdl", "-v", command, "job.toml"}), static_cast<int>(ExitCode::requeue));
  EXPECT_EQ(code_after(SIGHUP, {"distdl", "run"}, true), 0) << "nohup";
  EXPECT_EQ(code_after(SIGTERM, {"distdl", "ls"}), 128 + SIGTERM);
  EXPECT_EQ(code_after(SIGTERM, {"distdl", "run", "job.toml", "--check"}), 128 + SIGTERM);
  EXPECT_EQ(code_after(SIGTERM, {"distdl"}), 128 + SIGTERM);
}

TEST(ProcessStart, TooFewDescriptorsAreOneClearError) {
  EXPECT_TRUE(holds_in_child([] {
    rlimit limit{60, 100};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    require_descriptors(2);
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur != 100) return false;
    try {
      require_descriptors(100);
    } catch (const ConfigError&) {
      return true;
    }
    return false;
  }));
}

TEST(Console, DropsWhatCannotBeWritten) {
  ::signal(SIGPIPE, SIG_IGN);
  write_console(-1, "nowhere\n");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Stopwatch watch;
  for (int i = 0; i < 100; ++i) write_console(ends[1], std::string(4000, '.'));  // nobody reads
  EXPECT_LT(watch.seconds(), 20);
  std::string text(1 << 20, ' ');
  EXPECT_GT(::read(ends[0], text.data(), text.size()), 4000);
  write_console(ends[1], "again\n");
  EXPECT_EQ(::read(ends[0], text.data(), text.size()), 6);
  ::close(ends[0]);
  write_console(ends[1], "nobody\n");
  ::close(ends[1]);
  ::signal(SIGPIPE, SIG_DFL);
}
}  // namespace
}  // namespace distdl
