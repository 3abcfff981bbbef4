// SPDX-License-Identifier: Apache-2.0
// Which checkpoint a restart takes, and how it reads it.
#include <atomic>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <set>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/checkpoint/summary.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(NewestValid, EachRankFindsDamageInItsFiles) {
  for (int damaged = 0; damaged < 3; ++damaged) {
    TemporaryFolder root;
    for (int step : {1, 2, 3}) ASSERT_TRUE(all_empty(save_as(root.path(), 3, Step(step), make_sample(step))));
    fs::resize_file(root.path() / "step-000000000003" / data_file_name(damaged), 5000);
    fs::remove(root.path() / "step-000000000002/MANIFEST");
    const auto errors = ThreadGroups(3).run([&](Group& group) {
      Store store(root.path(), {});
      store.take(group, owner_called("next"));
      EXPECT_EQ(store.newest_valid(group).value().step, Step(1));
    });
    EXPECT_TRUE(all_empty(errors));
    EXPECT_EQ(steps_in(root.path()), (std::set<std::int64_t>{1}));
  }
}

TEST(NewestValid, ReadsAtOnceAndGoesBackTogetherWhereOneRankMeetsDamage) {
  TemporaryFolder root;
  for (int step : {1, 2, 3}) ASSERT_TRUE(all_empty(save_as(root.path(), 3, Step(step), make_sample(step))));
  std::mutex mutex;
  std::multiset<std::int64_t> read;
  const auto errors = ThreadGroups(3).run([&](Group& group) {
    Store store(root.path(), {});
    store.take(group, owner_called("next"));
    const auto found = store.newest_valid(group, {}, [&](const Summary& candidate) {
      std::lock_guard lock(mutex);
      read.insert(candidate.step.value);
      if (candidate.step == Step(3) && group.rank() == 1) throw StorageError("a block is damaged", ExitCode::corrupt);
      if (candidate.step == Step(2) && group.rank() == 2) throw FileError("read", candidate.folder, EIO);
    });
    EXPECT_EQ(found.value().step, Step(1));
  });
  EXPECT_TRUE(all_empty(errors));
  EXPECT_EQ(read, (std::multiset<std::int64_t>{1, 1, 1, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(steps_in(root.path()), (std::set<std::int64_t>{1}));
}

TEST(NewestValid, WhatDoesNotFitIsAnErrorOfAllAndNotDamage) {
  TemporaryFolder root;
  for (int step : {1, 2}) ASSERT_TRUE(all_empty(save_as(root.path(), 2, Step(step), make_sample(step))));
  const auto errors = ThreadGroups(2).run([&](Group& group) {
    Store store(root.path(), {});
    store.take(group, owner_called("next"));
    store.newest_valid(group, {}, [&](const Summary&) {
      if (group.rank() == 1) throw StorageError("tensor \"w\" does not fit", ExitCode::incompatible);
    });
  });
  for (const auto& error : errors) EXPECT_THAT(error, HasSubstr("tensor \"w\" does not fit"));
  EXPECT_EQ(steps_in(root.path()), (std::set<std::int64_t>{1, 2}));
}

/// How reads past the page cache go.
class DirectReads final : public FileSystem {
 public:
  enum class Way { well, refused, cut_short };
  explicit DirectReads(Way way) : way_(way) {}
  int open(const char* path, int flags, mode_t mode) override {
    const int descriptor = FileSystem::open(path, flags, mode);
    if ((flags & O_DIRECT) && descriptor >= 0) direct_.insert(descriptor);
    return descriptor;
  }
  int close(int descriptor) override {
    direct_.erase(descriptor);
    return FileSystem::close(descriptor);
  }
  ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset) override {
    if (!direct_.contains(descriptor)) return FileSystem::pread(descriptor, data, bytes, offset);
    ++reads_;
    if (way_ == Way::refused) return errno = EINVAL, -1;
    return FileSystem::pread(descriptor, data, way_ == Way::cut_short ? half_of(bytes) : bytes, offset);
  }
  int reads() const { return reads_; }

 private:
  Way way_;
  std::atomic<int> reads_ = 0;
  std::set<int> direct_;  // opened and closed by one thread
};

TEST(NewestValid, ReadsTheSameBytesPastThePageCache) {
  TemporaryFolder root(false);
  const Sample sample = make_sample(1, 100'000);  // two blocks, the second odd
  ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(1), sample)));
  const Summary saved = open(root.path());
  for (auto way : {DirectReads::Way::well, DirectReads::Way::refused, DirectReads::Way::cut_short}) {
    DirectReads files(way);
    EXPECT_EQ(compare(Store(root.path(), {}, files), saved, sample, 1, false, PageCache::passed), "");
    if (files.reads() == 0) GTEST_SKIP() << root.path() << " lies on a file system without O_DIRECT";
    EXPECT_EQ(files.reads(), 2);
    EXPECT_EQ(compare(Store(root.path(), {}, files), saved, sample), "");
    EXPECT_EQ(files.reads(), 2) << "where the cache is to be used";
  }
}

TEST(NewestValid, QuarantinesDamageAndFallsBack) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  save_alone(store, 1, make_sample(1));
  save_alone(store, 2, make_sample(2));
  fs::resize_file(root.path() / "step-000000000002/node0000.h5", 5000);
  Summary summary = newest(store);
  EXPECT_EQ(summary.step, Step(1));
  EXPECT_EQ(compare(store, summary, make_sample(1)), "");
  EXPECT_EQ(steps_in(root.path()), (std::set<std::int64_t>{1}));
  auto moved = entries_with_prefix(root.path() / kQuarantineName, "step-000000000002.");
  ASSERT_EQ(moved.size(), 1u);
  std::string reason;
  std::getline(std::ifstream(moved[0] / "REASON"), reason);
  EXPECT_THAT(reason, HasSubstr("5000 bytes long"));
}

TEST(NewestValid, LeavesDamageAloneInAFolderItDoesNotOwn) {
  TemporaryFolder root;
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(1), make_sample(1))));
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(2), make_sample(2))));
  fs::remove(root.path() / "step-000000000002/MANIFEST");
  Store reader(root.path(), {});
  EXPECT_EQ(newest(reader).step, Step(1));
  EXPECT_EQ(steps_in(root.path()), (std::set<std::int64_t>{1, 2}));
}

TEST(NewestValid, IgnoresADamagedOrLyingLatest) {
  TemporaryFolder root;
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(1), make_sample(1))));
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(2), make_sample(2))));
  Store store(root.path(), {});
  for (const char* text : {"", "step-000000000001\n", "step-000000000009\n", "../../etc", "\xff\xff"}) {
    std::ofstream(root.path() / kLatestName) << text;
    EXPECT_EQ(newest(store).step, Step(2));
  }
  fs::remove(root.path() / kLatestName);
  EXPECT_EQ(newest(store).step, Step(2));
}
}  // namespace
}  // namespace distdl::checkpoint
