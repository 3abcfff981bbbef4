// SPDX-License-Identifier: Apache-2.0
// Disks that refuse, at every operation of a save.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::checkpoint {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using Fault = FailingFileSystem::Fault;
constexpr int kWorld = 2;

/// Takes and saves step 2 on a failing disk; what each rank threw.
std::vector<std::string> save_on(FileSystem& files, const std::filesystem::path& root, const Sample& sample) {
  return ThreadGroups(kWorld).run([&](Group& group) {
    Store store(root, {.keep = 2, .verify_after_write = true}, files);
    store.take(group, owner_called("failing"));
    store.save(group, Step(2), share_of(sample, group.rank(), kWorld).slices, sample_state());
  });
}

/// After the fault is over: an old or the new checkpoint is whole, and the same run can save on.
void expect_unharmed(const std::filesystem::path& root, const Sample& sample, bool saved) {
  SingleProcessGroup alone;
  Store store(root, {.keep = 2});
  store.take(alone, owner_called("later"));
  auto summary = store.newest_valid(alone);
  ASSERT_TRUE(summary);
  EXPECT_TRUE(!saved || summary->step == Step(2));
  EXPECT_EQ(compare(store, *summary, summary->step == Step(2) ? sample : make_sample(1)), "");
  EXPECT_NO_THROW(store.save(alone, Step(2), share_of(sample, 0, 1).slices, sample_state()));
  EXPECT_NO_THROW(store.save(alone, Step(3), share_of(sample, 0, 1).slices, sample_state()));
}

/// Lets each operation fail in turn until one save runs to its end unharmed. Returns how many saves failed.
int fail_everywhere(FailingFileSystem::Plan plan, bool must_succeed) {
  Sample sample = make_sample(2);
  int failed = 0;
  for (plan.at = 0;; ++plan.at) {
    SCOPED_TRACE(fmt::format("operation {}, {}", plan.at, plan.persistent ? "from then on" : "once"));
    TemporaryFolder root;
    EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(1), make_sample(1))));
    FailingFileSystem files(plan);
    auto errors = save_on(files, root.path(), sample);
    bool saved = all_empty(errors);
    for (const auto& error : errors) EXPECT_EQ(error, errors[0]);  // on every rank alike
    if (!saved) {
      ++failed;
      EXPECT_FALSE(must_succeed) << errors[0];
      EXPECT_THAT(errors[0], AllOf(HasSubstr(root.path().string()), HasSubstr("rank ")));
      EXPECT_THAT(errors[0], HasSubstr(strerrorname_np(plan.number)));
    }
    expect_unharmed(root.path(), sample, saved);
    if (testing::Test::HasFailure()) break;
    if (files.operations() <= plan.at) break;
  }
  return failed;
}

class FaultTest : public testing::TestWithParam<int> {};

TEST_P(FaultTest, OnceAtEveryOperation) {
  EXPECT_GT(fail_everywhere({Fault::error, 0, false, GetParam()}, false), 5);
}
TEST_P(FaultTest, ForeverFromEveryOperation) {
  EXPECT_GT(fail_everywhere({Fault::error, 0, true, GetParam()}, false), 20);
}
INSTANTIATE_TEST_SUITE_P(Errno, FaultTest, testing::Values(EIO, ENOSPC, EDQUOT),
                         [](const auto& errno_value) { return strerrorname_np(errno_value.param); });

TEST(Fault, ShortWritesAreContinued) {
  fail_everywhere({Fault::short_write, 0, false, EIO}, true);
  FailingFileSystem all({Fault::short_write, 0, true, EIO});
  TemporaryFolder root;
  EXPECT_TRUE(all_empty(save_on(all, root.path(), make_sample(2))));
  EXPECT_TRUE(verify(root.path() / step_folder_name(Step(2))).empty());
}

/// Every call that may be interrupted by a signal is, once, before it works.
class InterruptedFileSystem final : public FileSystem {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    return interrupted() ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t pwrite(int fd, const std::byte* data, std::size_t bytes, off_t offset) override {
    return interrupted() ? -1 : FileSystem::pwrite(fd, data, bytes, offset);
  }
  ssize_t pread(int fd, std::byte* data, std::size_t bytes, off_t offset) override {
    return interrupted() ? -1 : FileSystem::pread(fd, data, bytes, offset);
  }
  int fsync(int fd) override { return interrupted() ? -1 : FileSystem::fsync(fd); }
  int fallocate(int fd, off_t offset, off_t bytes) override {
    return interrupted() ? -1 : FileSystem::fallocate(fd, offset, bytes);
  }
  int close(int fd) override { return FileSystem::close(fd), errno = EINTR, -1; }

 private:
  bool interrupted() {
    static thread_local bool now = false;
    errno = EINTR;
    return now = !now;
  }
};

TEST(Fault, InterruptedCallsAreRepeated) {
  TemporaryFolder root;
  InterruptedFileSystem files;
  auto errors = save_on(files, root.path(), make_sample(2));
  EXPECT_TRUE(all_empty(errors)) << errors[0];
  EXPECT_TRUE(verify(root.path() / step_folder_name(Step(2))).empty());
}

TEST(Fault, ADiskThatChangesBytesIsSeenByReadingBack) {
  class Liar final : public FileSystem {
    ssize_t pwrite(int fd, const std::byte* data, std::size_t bytes, off_t offset) override {
      std::vector<std::byte> changed(data, data + bytes);
      if (bytes > 1000) changed[500] ^= std::byte{4};
      return FileSystem::pwrite(fd, changed.data(), bytes, offset);
    }
  } liar;
  TemporaryFolder root;
  auto errors = save_on(liar, root.path(), make_sample(2));
  EXPECT_THAT(errors[0], AllOf(HasSubstr("read back"), HasSubstr("checksum")));
  EXPECT_TRUE(step_folders(root.path()).empty());
}

TEST(Fault, AnUnwritableFolderIsNamed) {
  TemporaryFolder root;
  std::ofstream(root.path() / "file") << "not a folder";
  SingleProcessGroup alone;
  Store store(root.path() / "file" / "checkpoints", {});
  try {
    store.take(alone, owner_called("test"));
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::storage);
    EXPECT_THAT(error.what(), HasSubstr("file\" is a regular file, but a folder was expected"));
  }
}

/// Always has a mebibyte free beyond what a save needs for itself.
class LittleRoom final : public FileSystem {
 public:
  int statvfs(const char* path, struct statvfs* result) override {
    const int rc = FileSystem::statvfs(path, result);
    result->f_bavail = (2 << 20) / result->f_frsize;
    return rc;
  }
};

TEST(Fault, WhatWillBeCompressedMayBeLargerThanTheRoomThatIsThere) {
  LittleRoom files;
  const Share share = share_of(make_compressible(1, 100'000), 0, 1);  // 6.6 MB
  const std::uint64_t bytes = 6'600'000;
  for (const std::string codec : {"none", "zstd"}) {
    TemporaryFolder root;
    SingleProcessGroup alone;
    Store store(root.path(), {.compression = codec}, files);
    store.take(alone, owner_called("test"));
    if (codec == "none") {
      EXPECT_THROW(store.check_room(alone, bytes), StorageError);
      EXPECT_THROW(store.save(alone, Step(1), share.slices, sample_state()), StorageError);
    } else {
      EXPECT_NO_THROW(store.check_room(alone, bytes));
      EXPECT_NO_THROW(store.save(alone, Step(1), share.slices, sample_state()));
      EXPECT_TRUE(store.newest_valid(alone));
    }
  }
}

/// Runs `body` in a child process; what it returned.
int in_child(const std::function<int()>& body) {
  pid_t child = ::fork();
  if (child == 0) {
    int code = 120;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 121;
}

TEST(Fault, AFolderWithoutPermissionIsNamed) {
  TemporaryFolder root;
  ::chmod(root.path().c_str(), 0555);
  constexpr int kNoRights = 77;
  int code = in_child([&] {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return kNoRights;
    SingleProcessGroup alone;
    Store store(root.path(), {});
    try {
      store.take(alone, owner_called("test"));
    } catch (const StorageError& error) {
      std::string text = error.what();
      return text.find("(EACCES)") != text.npos && text.find(root.path().string()) != text.npos ? 0 : 1;
    }
    return 2;
  });
  ::chmod(root.path().c_str(), 0755);
  if (code == kNoRights) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(code, 0);
}

/// Fills a small tmpfs, seen only by this child. 0: all well; 77: not allowed to mount; else the check that failed.
int save_on_full_disk(const std::filesystem::path& where, bool old_kernel, std::size_t ballast) {
  int flags = CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER);
  if (::unshare(flags) != 0) return 77;
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("tmpfs", where.c_str(), "tmpfs", 0, "size=8m") != 0) return 77;
  std::filesystem::path root = where / "checkpoints";
  Sample small = make_sample(1), large = make_sample(2, 100'000);  // 6.6 MB
  if (!all_empty(save_as(root, 1, Step(1), small))) return 1;
  std::ofstream(where / "ballast") << std::string(ballast, 'x');
  FailingFileSystem files({.old_kernel = old_kernel});
  auto errors = save_on(files, root, large);
  std::fprintf(stderr, "%s\n", errors[0].c_str());
  if (errors[0].empty() || errors[0] != errors[1]) return 2;
  bool tells = old_kernel ? errors[0].find("No space left on device") != std::string::npos
                          : errors[0].find("MiB free") != std::string::npos;
  if (!tells || errors[0].find(root.string()) == std::string::npos) return 3;
  SingleProcessGroup alone;
  Store store(root, {});
  auto summary = store.newest_valid(alone);
  if (!summary || !compare(store, *summary, small).empty()) return 4;
  std::filesystem::remove(where / "ballast");
  return all_empty(save_as(root, 2, Step(2), large)) ? 0 : 5;
}

/// On a small tmpfs that has no room for a fourth checkpoint. 0: all well; 77: not allowed to mount; else the check
/// that failed.
int save_where_three_fit(const std::filesystem::path& where, bool old_kernel) {
  if (::unshare(CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0) return 77;
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("tmpfs", where.c_str(), "tmpfs", 0, "size=8m") != 0) return 77;
  const std::filesystem::path root = where / "checkpoints";
  FailingFileSystem files({.old_kernel = old_kernel});
  SingleProcessGroup alone;
  Store store(root, {.keep = 3}, files);
  store.take(alone, owner_called("test"));
  const Sample sample = make_sample(2, 30'000);  // 2 MB
  for (std::int64_t step : {1, 2, 3, 4, 5, 6}) {
    store.save(alone, Step(step), share_of(sample, 0, 1).slices, sample_state());
    if (step == 1) add_tag(files, root, Step(1), "best", false);
  }
  const auto steps = steps_in(root);
  if (!steps.contains(1)) return 2;  // it has a tag
  if (!steps.contains(6) || steps.size() < 2 || !verify(root / "step-000000000006").empty()) return 3;
  // Too large, whatever goes: nothing goes where that is seen before, else the newest one stays.
  try {
    store.save(alone, Step(7), share_of(make_sample(2, 100'000), 0, 1).slices, sample_state());
    return 4;
  } catch (const StorageError&) {
  }
  if (!old_kernel && steps_in(root) != steps) return 6;
  return steps_in(root).contains(6) ? 0 : 5;
}

TEST(Fault, WhereRoomIsShortOlderCheckpointsGoBeforeASaveFails) {
  TemporaryFolder root;
  for (bool old_kernel : {false, true}) {  // seen by statvfs, or by a write that fails
    int code = in_child([&] { return save_where_three_fit(root.path(), old_kernel); });
    if (code == 77) GTEST_SKIP() << "may not mount a small tmpfs here";
    EXPECT_EQ(code, 0) << old_kernel;
  }
}

/// Has room for so many bytes.
class RoomFor final : public FileSystem {
 public:
  explicit RoomFor(std::uint64_t bytes) : bytes_(bytes) {}
  int statvfs(const char* path, struct statvfs* result) override {
    const int rc = FileSystem::statvfs(path, result);
    result->f_bavail = bytes_ / result->f_frsize;
    return rc;
  }

 private:
  std::uint64_t bytes_;
};

TEST(Fault, ARunAsksForTheRoomThatItWillNeed) {
  constexpr std::uint64_t kMiB = 1 << 20;
  for (const bool first : {true, false}) {
    TemporaryFolder root;
    SingleProcessGroup alone;
    const Share share = share_of(make_sample(1, 100'000), 0, 1);  // 6.6 MB
    if (!first) {
      Store store(root.path(), {});
      store.take(alone, owner_called("before"));
      store.save(alone, Step(1), share.slices, sample_state());
    }
    const auto has_room = [&](std::uint64_t bytes) {
      RoomFor files(bytes);
      Store store(root.path(), {}, files);
      store.take(alone, owner_called("test"));
      try {
        store.check_room(alone, 6'600'000);
      } catch (const StorageError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("MiB free"), HasSubstr(first ? "2 checkpoints" : "1 checkpoint of")));
        return false;
      }
      return true;
    };
    EXPECT_FALSE(has_room(4 * kMiB));
    EXPECT_EQ(has_room(9 * kMiB), !first) << "one is there already";
    EXPECT_TRUE(has_room(18 * kMiB));
  }
}

TEST(Fault, ARealFullDiskIsSeenBeforeAndDuringTheWriting) {
  TemporaryFolder root;
  struct Case {
    bool old_kernel;
    std::size_t ballast;
  };
  // Seen by statvfs; by a write of ours; by HDF5, which finds no room even for its own structures.
  for (auto [old_kernel, ballast] : {Case{false, 4 << 20}, Case{true, 4 << 20}, Case{true, (8 << 20) - (100 << 10)}}) {
    int code = in_child([&, old = old_kernel, size = ballast] { return save_on_full_disk(root.path(), old, size); });
    if (code == 77) GTEST_SKIP() << "may not mount a small tmpfs here";
    EXPECT_EQ(code, 0);
  }
}
}  // namespace
}  // namespace distdl::checkpoint
