// SPDX-License-Identifier: Apache-2.0
// The lock keeps threads apart, nests, silences HDF5 and survives fork().
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hdf5/waiting.hpp"
#include <distdl/hdf5/library.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::hdf5 {
namespace {

/// A call that fails, whose error is never read.
void fail_silently() {
  H5Fopen("/nowhere/at/all.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
}

TEST(Lock, IsHeldFromTheFirstToTheLast) {
  EXPECT_FALSE(Lock::is_held());
  {
    Lock outer;
    EXPECT_TRUE(Lock::is_held());
    { Lock inner; }
    EXPECT_TRUE(Lock::is_held());
    std::thread([] { EXPECT_FALSE(Lock::is_held()); }).join();
  }
  EXPECT_FALSE(Lock::is_held());
}

TEST(Lock, KeepsOtherThreadsOut) {
  EXPECT_TRUE(waits_for_the_lock([] { Lock lock; }));
}

TEST(Lock, OfANestedOneIsNotGivenBackEarly) {
  std::atomic<bool> outer_ended{false};
  std::thread other;
  {
    Lock outer;
    other = std::thread([&] {
      Lock lock;
      EXPECT_TRUE(outer_ended);
    });
    { Lock inner; }
    std::this_thread::sleep_for(kLongEnough);
    outer_ended = true;
  }
  other.join();
}

TEST(Lock, IsTakenByHandlesThatClose) {
  Space space;
  {
    Lock lock;
    space.reset(H5Screate(H5S_SCALAR));
    ASSERT_TRUE(space);
  }
  EXPECT_TRUE(waits_for_the_lock([&] { space.reset(); }));
}

TEST(Lock, IsTakenToAskForTheLibrary) {
  EXPECT_TRUE(waits_for_the_lock([] { EXPECT_TRUE(find_library()); }));
  EXPECT_THAT(find_library()->version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

int printed = 0;
herr_t count_print(hid_t, void*) {
  ++printed;
  return 0;
}

TEST(Lock, SilencesHdf5OnlyWhileItIsHeld) {
  H5E_auto2_t before = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &before, &data);
  H5Eset_auto2(H5E_DEFAULT, &count_print, nullptr);
  {
    Lock outer;
    { Lock inner; }
    fail_silently();
  }
  EXPECT_EQ(printed, 0);
  fail_silently();
  EXPECT_EQ(printed, 1);
  H5Eset_auto2(H5E_DEFAULT, before, data);
}

TEST(Lock, OfTheForkingThreadIsHeldByTheChildToo) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      Lock lock;
      Space space(H5Screate(H5S_SCALAR));
    }
  });
  for (int i = 0; i < 100; ++i) {
    pid_t child = -1;
    {
      Lock lock;
      child = ::fork();
      if (child == 0) {
        ::alarm(60);
        Lock nested;
        Space space(H5Screate(H5S_SCALAR));
        ::_exit(Lock::is_held() && space ? 0 : 1);
      }
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace distdl::hdf5
