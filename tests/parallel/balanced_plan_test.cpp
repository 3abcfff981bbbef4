// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include <distdl/base/clock.hpp>
#include <distdl/parallel/balanced_plan.hpp>
#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {
namespace {
Options of(std::int64_t microbatches) {
  return {.microbatches = microbatches, .microbatch_size = 1};
}

/// One more than equal shares need, as training has it.
std::vector<std::size_t> room_for(const MicrobatchPlan& equal, std::size_t spare = 1) {
  std::vector<std::size_t> arenas;
  for (const auto& range : equal.ranges) arenas.push_back(arenas_for(range, equal.microbatches) + spare);
  return arenas;
}

std::vector<int> counts_of(const MicrobatchPlan& plan) {
  std::vector<int> counts;
  for (const auto& range : plan.ranges) counts.push_back(range.count);
  return counts;
}

void expect_valid(const MicrobatchPlan& plan, const std::vector<std::size_t>& arenas) {
  int next = 0;
  for (std::size_t r = 0; r < plan.ranges.size(); ++r) {
    EXPECT_EQ(plan.ranges[r].first, next);
    EXPECT_GE(plan.ranges[r].count, 1);
    EXPECT_LE(arenas_for(plan.ranges[r], plan.microbatches), arenas[r]);
    next += plan.ranges[r].count;
  }
  EXPECT_EQ(next, plan.microbatches);
}

TEST(BalancedPlan, IsAsShortAsSpeedsAllowWithOneArenaMore) {
  for (int ranks : {2, 3, 4, 8})
    for (int each : {2, 3, 4, 8})
      for (int slow = 0; slow < ranks; ++slow) {
        const Options options = of(ranks * each);
        StepCosts costs{std::vector<double>(static_cast<std::size_t>(ranks), 1.0)};
        costs.microbatch_seconds[static_cast<std::size_t>(slow)] = 3;
        const auto arenas = room_for(make_plan(options, ranks));
        const auto plan = balanced_plan(options, costs, arenas);
        ASSERT_TRUE(plan);
        expect_valid(*plan, arenas);
        std::vector<double> speeds;
        for (double seconds : costs.microbatch_seconds) speeds.push_back(1 / seconds);
        EXPECT_DOUBLE_EQ(step_seconds(*plan, costs), step_seconds(make_plan(options, speeds), costs))
            << ranks << " ranks with " << each << ", slow " << slow;
      }
}

TEST(BalancedPlan, PrefersFewPartialSums) {
  const StepCosts costs{{1, 3, 1}, 1};
  const auto plan = balanced_plan(of(12), costs, room_for(make_plan(of(12), 3)));
  ASSERT_TRUE(plan);
  EXPECT_EQ(most_partials(*plan), 2u) << "5, 2 and 5 have three";
  EXPECT_DOUBLE_EQ(step_seconds(*plan, costs), 6 + 2);
  // Where the all-reduce is what takes time, each rank has one alone.
  const StepCosts slow_network{{1, 3, 1}, 40};
  const auto aligned = balanced_plan(of(12), slow_network, room_for(make_plan(of(12), 3)));
  EXPECT_EQ(counts_of(aligned.value()), (std::vector<int>{8, 2, 2}));
}

TEST(BalancedPlan, IsTheEqualOneForEqualRanks) {
  const auto plan = balanced_plan(of(16), {{1, 1, 1, 1}, 0.5}, room_for(make_plan(of(16), 4)));
  EXPECT_EQ(counts_of(plan.value()), (std::vector<int>{4, 4, 4, 4}));
}

TEST(BalancedPlan, KeepsToTheArenasThatThereAre) {
  for (int slow = 0; slow < 3; ++slow) {
    StepCosts costs{{1, 1, 1}};
    costs.microbatch_seconds[static_cast<std::size_t>(slow)] = 3;
    const auto arenas = room_for(make_plan(of(12), 3), 0);
    const auto plan = balanced_plan(of(12), costs, arenas);
    ASSERT_TRUE(plan);
    expect_valid(*plan, arenas);
  }
  EXPECT_FALSE(balanced_plan(of(12), {{1, 1, 1}}, {1, 1, 1}));
}

TEST(BalancedPlan, IsFoundInTimeForManyRanksAndMicrobatches) {
  for (const auto& [ranks, microbatches] : {std::pair(2, 4096), std::pair(64, 256), std::pair(1000, 4000)}) {
    StepCosts costs{std::vector<double>(static_cast<std::size_t>(ranks), 1.0), 0.1};
    costs.microbatch_seconds[1] = 4;
    const auto equal = make_plan(of(microbatches), ranks);
    const auto arenas = room_for(equal);
    const Stopwatch watch;
    const auto plan = balanced_plan(of(microbatches), costs, arenas);
    EXPECT_LT(watch.seconds(), 5) << ranks << " ranks";
    if (!plan) continue;  // only coarse divisions were tried
    expect_valid(*plan, arenas);
    EXPECT_LE(step_seconds(*plan, costs), step_seconds(equal, costs));
  }
}
}  // namespace
}  // namespace distdl::parallel
