// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

#include <distdl/data/codecs/workers.hpp>

namespace distdl::data {
namespace {

TEST(Workers, DoEachWorkOnceAndAgain) {
  Workers workers(4);
  for (const std::size_t items : {0, 1, 3, 500}) {
    std::vector<std::atomic<int>> done(items);
    std::vector<std::atomic<int>> busy(workers.count());
    workers.start(items, [&](std::size_t item, std::size_t worker) {
      EXPECT_EQ(busy[worker]++, 0) << "one work at a time";
      ++done[item];
      --busy[worker];
    });
    workers.finish();
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(Workers, RethrowTheFirstExceptionAndGoOn) {
  Workers workers(3);
  std::atomic<int> done = 0;
  workers.start(1000, [&](std::size_t item, std::size_t) {
    if (item == 5) throw std::runtime_error("five");
    ++done;
  });
  EXPECT_THROW(workers.finish(), std::runtime_error);
  EXPECT_LT(done, 1000);
  workers.start(10, [&](std::size_t, std::size_t) { done = -1; });
  workers.finish();
  EXPECT_EQ(done, -1);
}

TEST(Workers, EndWithoutFinish) {
  Workers workers(3);
  workers.start(3, [](std::size_t, std::size_t) {});
}

}  // namespace
}  // namespace distdl::data
