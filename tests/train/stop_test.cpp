// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <gtest/gtest.h>

#include <distdl/train/state.hpp>
#include <distdl/train/stop.hpp>

namespace distdl::train {
namespace {
using namespace std::chrono_literals;

TEST(StopSignals, RemembersTheFirstSignal) {
  StopSignals signals;
  EXPECT_FALSE(signals.poll());
  ::raise(SIGUSR2);
  EXPECT_EQ(signals.poll(), "signal SIGUSR2");
  ::raise(SIGTERM);
  EXPECT_EQ(signals.poll(), "signal SIGUSR2");
}

TEST(EndOfJob, StopsWhenOneMoreStepAndASaveMightNotFit) {
  auto now = std::chrono::system_clock::now();
  EndOfJob end(now + 100s, 10);
  EXPECT_FALSE(end.poll(now + 89s));
  EXPECT_TRUE(end.poll(now + 91s));
  end.step_took(5);
  end.save_took(20);
  EXPECT_FALSE(end.poll(now + 49s));
  EXPECT_TRUE(end.poll(now + 51s));
  EXPECT_FALSE(EndOfJob({}, 10).poll(now + 1000s));
}

TEST(EndOfJob, LeavesTimeForASnapshotThatTheLastSaveWouldWaitFor) {
  auto now = std::chrono::system_clock::now();
  EndOfJob end(now + 200s, 15);
  end.save_took(20);
  end.snapshot_took(60);
  EXPECT_FALSE(end.poll(now + 154s, false));
  EXPECT_TRUE(end.poll(now + 156s, false));
  EXPECT_FALSE(end.poll(now + 94s, true));
  EXPECT_TRUE(end.poll(now + 96s, true));
  end.save_took(80);  // an earlier one of which may be under way as well
  EXPECT_TRUE(end.poll(now, true));
}

TEST(ShareOf, CoversEachTensorExactlyOnce) {
  for (const tensor::Shape& shape : {tensor::Shape{1000, 100}, {7}, {}, {3, 100000}, {128, 3136}})
    for (int writers = 1; writers <= 5; ++writers) {
      std::int64_t covered = 0;
      for (int w = 0; w < writers; ++w)
        if (auto box = share_of(shape, 4, w, writers)) covered += tensor::element_count(box->extent);
      EXPECT_EQ(covered, tensor::element_count(shape)) << tensor::to_string(shape) << writers;
    }
}
}  // namespace
}  // namespace distdl::train
