// SPDX-License-Identifier: Apache-2.0
// What servers cost, and which ranges they have then.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/optim/shards.hpp>
#include <distdl/parallel/server/answer_times.hpp>
#include <distdl/parallel/server/range_division.hpp>

namespace distdl::parallel::server {
namespace {
using namespace std::chrono_literals;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

tensor::ArenaLayout layout_of(std::int64_t rows) {
  tensor::ArenaLayout layout;
  layout.add("weight", {rows, 16});
  return layout;
}

std::vector<std::size_t> counts_for(const std::vector<double>& seconds, const char* optimizer = "sgd",
                                    const tensor::ArenaLayout& layout = layout_of(1024)) {
  std::vector<std::size_t> counts;
  std::size_t end = 0;
  for (const auto& range : ranges_for({.name = optimizer}, layout, seconds)) {
    EXPECT_EQ(range.first, end);
    counts.push_back(range.count());
    end = range.end;
  }
  EXPECT_EQ(end, layout.size());
  return counts;
}

TEST(RangeDivision, IsInProportionToTheSpeeds) {
  EXPECT_THAT(counts_for({2, 1, 1}), ElementsAre(3280, 6560, 6544));
  EXPECT_THAT(counts_for({1e-9, 1e-9, 3e-9, 3e-9}), ElementsAre(6144, 6144, 2048, 2048));
  EXPECT_THAT(counts_for({5}), ElementsAre(16384)) << "one server";
}

TEST(RangeDivision, IsThatOfEqualRangesWhereServersCostTheSame) {
  for (const int servers : {1, 2, 3, 7, 64}) {
    const auto layout = layout_of(1000);
    EXPECT_EQ(ranges_for({.name = "adamw"}, layout, std::vector<double>(static_cast<std::size_t>(servers), 0.3)),
              equal_ranges({.name = "adamw"}, layout, servers));
  }
}

TEST(RangeDivision, LeavesAnEighthOfAnEqualRangeToTheSlowest) {
  const auto counts = counts_for({1000, 1});
  EXPECT_NEAR(static_cast<double>(counts[0]), 16384.0 / 17, 32);
}

TEST(RangeDivision, KeepsTensorsWholeWhereTheOptimizerAdaptsToThem) {
  tensor::ArenaLayout layout;
  for (const char* name : {"a", "b", "c", "d"}) layout.add(name, {10, 16});
  EXPECT_THAT(counts_for({1, 1}, "lars", layout), ElementsAre(320, 320));
  EXPECT_THAT(counts_for({3, 1}, "lars", layout), ElementsAre(160, 480));
  EXPECT_THAT(counts_for({1, 1, 1, 1, 1, 1}, "lars", layout), ::testing::Contains(0)) << "more servers than tensors";
}

TEST(RangeDivision, TakesAsLongAsItsSlowestServer) {
  EXPECT_EQ(slowest_seconds({{0, 10}, {10, 40}}, {2, 1}), 30);
  EXPECT_EQ(slowest_seconds({{0, 10}, {10, 20}}, {2, 1}), 20);
}

TEST(AnswerTimes, AreFromTheQuestionToTheAnswerWithoutWhatTheServerWaits) {
  AnswerTimes times(2);
  const auto begin = Clock::now();
  times.asked(0, begin);
  times.asked(1, begin + 1s);
  times.asked(1, begin + 2s);  // again
  times.answered(1, 0, begin + 4s);
  times.answered(1, 0, begin + 9s);  // again
  times.answered(0, 7, begin + 10s);
  EXPECT_THAT(times.seconds(), ElementsAre(DoubleNear(3, 1e-9), DoubleNear(3, 1e-9)));
  times.asked(0, begin);
  times.answered(0, 100, begin + 1s);
  EXPECT_NEAR(times.seconds()[0], 3, 1e-9) << "never below 0";
  for (const double damaged : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    times.asked(0, begin);
    times.answered(0, damaged, begin + 1s);
  }
  EXPECT_NEAR(times.seconds()[0], 5, 1e-9);
}

TEST(IdleTimes, EndWhereTheMessageComesThatMakesAnAnswerPossible) {
  IdleTimes idle;
  const auto begin = Clock::now();
  idle.came(begin);
  idle.pulled(Node(3));
  idle.came(begin + 1s);
  idle.pulled(Node(3));  // again
  idle.pulled(Node(6));
  EXPECT_EQ(idle.answered(Node(6)), 0) << "at once";
  idle.came(begin + 5s);
  EXPECT_NEAR(idle.answered(Node(3)), 5, 1e-9);
  EXPECT_EQ(idle.answered(Node(3)), 0) << "nothing was asked";
}
}  // namespace
}  // namespace distdl::parallel::server
