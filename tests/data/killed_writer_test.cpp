// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/shapes.hpp>

namespace distdl::data {
namespace {

/// Runs `action` in a process of its own; its result is the exit code.
pid_t start(const std::function<int()>& action) {
  pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = action();
    } catch (const Error& error) {
      code = static_cast<int>(error.exit_code());
    } catch (...) {
    }
    ::_exit(code);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

TEST(KilledWriter, LeavesAllOrNothingUnderTheFinalName) {
  ScratchFolder folder;
  int killed = 0;
  for (int i = 0; i < 25; ++i) {
    auto file = folder / fmt::format("{}.h5", i);
    pid_t child = start([&] { return make_shapes({.samples = 3000}, file, Overwrite::refuse), 0; });
    ::usleep(static_cast<useconds_t>(i * 2500));
    ::kill(child, SIGKILL);
    killed += wait_for(child) == 256 + SIGKILL;
    if (!std::filesystem::exists(file)) continue;
    EXPECT_TRUE(verify_file(file).damage.empty());
    EXPECT_EQ(describe_file(file).samples, 3000);
  }
  EXPECT_GT(killed, 3);
}

TEST(KilledWriter, IsFollowedByOneThatSucceeds) {
  ScratchFolder folder;
  pid_t child = start([&] { return make_shapes({.samples = 1'000'000}, folder / "a.h5", Overwrite::refuse), 0; });
  while (folder.entries() == 0) ::usleep(1000);
  ::kill(child, SIGKILL);
  EXPECT_EQ(wait_for(child), 256 + SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.h5"));
  make_shapes({.samples = 100}, folder / "a.h5", Overwrite::refuse);
  EXPECT_EQ(describe_file(folder / "a.h5").samples, 100);
}

TEST(FailedWriter, TellsOfAFullDiskAndLeavesNothing) {
  ScratchFolder folder;
  pid_t child = start([&] {
    rlimit limit{200'000, 200'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);  // writes fail with EFBIG instead
    return make_shapes({.samples = 1000}, folder / "a.h5", Overwrite::refuse), 0;
  });
  EXPECT_EQ(wait_for(child), static_cast<int>(ExitCode::storage));
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace
}  // namespace distdl::data
