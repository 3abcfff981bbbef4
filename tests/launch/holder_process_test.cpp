// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/process_age.hpp>
#include <distdl/base/random.hpp>
#include <distdl/launch/holder_process.hpp>

namespace distdl::launch {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// What the processes of real runs do is in tests/app/jobs_test.py.
class HolderProcess : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  /// A LOCK that names this process, or another one that runs.
  void forge(std::int64_t pid) const {
    Holder holder = Holder::self();
    holder.pid = pid;
    holder.started = start_of_process(pid).value_or(0);
    std::ofstream(folder_ / "LOCK") << to_text(holder);
  }
  /// With no signal, whose sender only learns whether it could send one.
  auto signalling() const {
    return [this] { signal_holder(folder_, trusted_holder(folder_).value(), 0); };
  }
  fs::path folder_ = fs::path(::testing::TempDir()) / ("holder_" + random_hex(8));
};

TEST_F(HolderProcess, GetsNoSignalUnlessItRunsDistdl) {
  EXPECT_FALSE(trusted_holder(folder_));
  forge(::getpid());
  EXPECT_TRUE(trusted_holder(folder_)->is_here());
  EXPECT_THAT(signalling(), ThrowsMessage<StorageError>(HasSubstr("does not run distdl: it got no signal")));
  forge(1);
  const char* const why = ::geteuid() == 0 ? "does not run distdl" : "belongs to user 0, but the file to user";
  EXPECT_THAT(signalling(), ThrowsMessage<StorageError>(HasSubstr(why)));
  for (const std::int64_t none : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 30}) {
    forge(none);
    EXPECT_THAT(signalling(), ThrowsMessage<StorageError>(HasSubstr("is not the one that wrote it"))) << none;
  }
  forge(::getpid());
  Holder before = trusted_holder(folder_)->holder;
  before.started -= 1;
  std::ofstream(folder_ / "LOCK") << to_text(before);
  EXPECT_THAT(signalling(), ThrowsMessage<StorageError>(HasSubstr("is not the one that wrote it")));
}

TEST_F(HolderProcess, IsNotReadFromWhatIsNoFile) {
  std::ofstream(folder_ / "LOCK") << "damaged";
  EXPECT_FALSE(trusted_holder(folder_));
  fs::rename(folder_ / "LOCK", folder_ / "elsewhere");
  fs::create_symlink("elsewhere", folder_ / "LOCK");
  EXPECT_THAT([&] { trusted_holder(folder_); }, ThrowsMessage<StorageError>(HasSubstr("LOCK\" is a link")));
  fs::remove(folder_ / "LOCK");
  ASSERT_EQ(::mkfifo((folder_ / "LOCK").c_str(), 0600), 0);
  EXPECT_THAT([&] { trusted_holder(folder_); }, ThrowsMessage<StorageError>(HasSubstr("LOCK\" is a FIFO")));
}

TEST_F(HolderProcess, IsNotReadFromAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
  forge(::getpid());
  ASSERT_EQ(::chown((folder_ / "LOCK").c_str(), 65534, 65534), 0);
  EXPECT_THAT([&] { trusted_holder(folder_); }, ThrowsMessage<StorageError>(HasSubstr("belongs to user 65534")));
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(signalling(), ThrowsMessage<StorageError>(HasSubstr("belongs to user 0, but the file to user 65534")));
}
}  // namespace
}  // namespace distdl::launch
