// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <system_error>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/process.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/vote.hpp>

namespace distdl {
namespace {
using testing::HasSubstr;

/// Whether `claim` holds in a process of its own, which may have other limits.
bool holds_under_limits(const std::function<bool()>& claim) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(claim() ? 0 : 1);
  int status = -1;
  return ::waitpid(pid, &status, 0) == pid && exit_code_from_status(status) == 0;
}

bool limit(__rlimit_resource what, rlim_t value) {
  const rlimit both{value, value};
  return ::setrlimit(what, &both) == 0;
}

TEST(Shortage, IsAMatterOfConfigurationNotADefect) {
  EXPECT_EQ(exit_code_of(std::bad_alloc()), ExitCode::config);
  EXPECT_EQ(exit_code_of(std::system_error(EAGAIN, std::generic_category())), ExitCode::config);
  EXPECT_EQ(exit_code_of(ResourceError("no descriptor")), ExitCode::config);
  EXPECT_EQ(exit_code_of(std::runtime_error("a defect")), ExitCode::internal);
  EXPECT_FALSE(is_shortage(StorageError("damaged", ExitCode::corrupt)));
  EXPECT_FALSE(is_shortage(ConfigError("a wrong key")));
  EXPECT_TRUE(is_shortage(StorageError("no descriptor", ExitCode::config)));
}

TEST(Shortage, PassesHandlersThatJudgeWhatWasRead) {
  const auto blame = [](const auto& error) {
    try {
      throw error;
    } catch (const std::exception& caught) {
      pass_on_shortage(caught);
      throw StorageError("damaged", ExitCode::corrupt);
    }
  };
  EXPECT_THROW(blame(std::bad_alloc()), std::bad_alloc);
  EXPECT_THROW(blame(std::invalid_argument("no number")), StorageError);
}

TEST(Shortage, IsNamedWithItsLimit) {
  EXPECT_TRUE(holds_under_limits([] {
    if (!limit(RLIMIT_NOFILE, 77) || !limit(RLIMIT_FSIZE, 3 << 10)) return false;
    return errno_text(EMFILE).find("77 files open (ulimit -n)") != std::string::npos &&
           errno_text(EFBIG).find("3 KiB (ulimit -f)") != std::string::npos;
  }));
  EXPECT_TRUE(holds_under_limits([] {
    if (!limit(RLIMIT_AS, std::size_t{900} << 20)) return false;
    return message_of(std::bad_alloc()).find("921600 KiB of addresses (ulimit -v)") != std::string::npos;
  }));
}

TEST(Shortage, OfACallIsAnErrorOfItsOwn) {
  EXPECT_THROW(fail_call<InternalError>("make a pipe", EMFILE), ResourceError);
  EXPECT_THROW(fail_call<InternalError>("make a pipe", EBADF), InternalError);
  try {
    fail_call<StorageError>("map a file", ENOMEM);
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::config);
  }
}

TEST(Shortage, OfProcessesNamesTheLimitOfTheUser) {
  EXPECT_TRUE(holds_under_limits([] {
    constexpr uid_t kStranger = 61235;
    if (::geteuid() == 0 && ::setresuid(kStranger, kStranger, kStranger) != 0) return false;
    if (!limit(RLIMIT_NPROC, 0)) return false;
    try {
      run_command({"true"}, Milliseconds(1000));
    } catch (const ResourceError& error) {
      return std::string(error.what()).find("0 processes and threads (ulimit -u)") != std::string::npos;
    }
    return false;
  }));
}

TEST(Shortage, OfOneRankIsTheVoteOfAll) {
  const auto failed = failure_of({vote_on([]() -> std::string { throw std::bad_alloc(); }, ExitCode::storage)});
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, ExitCode::config);
  EXPECT_THAT(failed->message, HasSubstr("no memory is left"));
}

TEST(PathErrors, NameThePathAndAreNoDefect) {
  try {
    static_cast<void>(std::filesystem::file_size("/no/such/file"));
    FAIL();
  } catch (const std::filesystem::filesystem_error& error) {
    EXPECT_EQ(exit_code_of(error), ExitCode::storage);
    EXPECT_EQ(message_of(error), "cannot look at \"/no/such/file\": No such file or directory (ENOENT)");
  }
}
}  // namespace
}  // namespace distdl
