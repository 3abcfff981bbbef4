// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include <gtest/gtest.h>

#include <distdl/base/philox.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
constexpr std::size_t kCount = 1003;  // divisible by nothing in use

/// Values of very different size, so that another order of additions gives other bits.
float gradient(int microbatch, std::size_t i) {
  auto bits = Philox::block(7, static_cast<std::uint64_t>(microbatch), i);
  return (Philox::uniform(bits[0]) - 0.5f) * std::exp2(static_cast<float>(bits[1] % 24));
}

/// The tree, spelled out.
float tree_sum(int first, int count, std::size_t i) {
  if (count == 1) return gradient(first, i);
  int left = 1;
  while (left * 2 < count) left *= 2;
  return tree_sum(first, left, i) + tree_sum(first + left, count - left, i);
}

/// One step with each plan.
std::vector<float> sum_with(const std::vector<MicrobatchPlan>& plans) {
  std::vector<float> result;
  std::mutex mutex;
  world::run_threads(static_cast<int>(plans.front().ranges.size()), [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    auto backend = kernels::make_backend({.backend = "reference"});
    GradientSum sum(*backend, *communicator, plans.front(), kCount);
    sum.allocate();
    float* const address = sum.first_partial();
    if (std::any_of(plans.begin(), plans.end(), [&](const auto& plan) { return plan.ranges != plans[0].ranges; }))
      sum.allocate_spare();
    for (const MicrobatchPlan& plan : plans) {
      sum.set_plan(plan);
      auto range = plan.of(world.rank());
      for (int m = range.first; m < range.first + range.count; ++m) {
        float* arena = sum.microbatch_arena();
        for (std::size_t i = 0; i < kCount; ++i) arena[i] = gradient(m, i);
        sum.add();
      }
      const float* total = sum.finish();
      EXPECT_EQ(total, address);
      std::lock_guard lock(mutex);
      std::vector<float> mine(total, total + kCount);
      if (!result.empty()) {
        EXPECT_EQ(std::memcmp(result.data(), mine.data(), kCount * sizeof(float)), 0);
      }
      result = mine;
    }
    communicator->close();
  });
  return result;
}

std::vector<float> sum_with(int microbatches, const std::vector<double>& speeds, std::size_t steps) {
  return sum_with(std::vector(steps, make_plan({.microbatches = microbatches, .microbatch_size = 1}, speeds)));
}

TEST(GradientSum, HasTheBitsOfTheTreeForEveryNumberOfRanks) {
  for (int microbatches : {1, 2, 5, 8, 12}) {
    std::vector<float> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] = tree_sum(0, microbatches, i);
    for (int ranks : {1, 2, 3, 4, 6}) {
      if (ranks > microbatches) continue;
      auto sum = sum_with(microbatches, std::vector<double>(static_cast<std::size_t>(ranks), 1.0), 2);
      EXPECT_EQ(std::memcmp(sum.data(), expected.data(), kCount * sizeof(float)), 0)
          << microbatches << " microbatches on " << ranks << " ranks";
    }
  }
}

TEST(GradientSum, HasTheSameBitsForUnevenShares) {
  auto even = sum_with(12, {1, 1, 1}, 1), uneven = sum_with(12, {1, 0.3, 2}, 1);
  EXPECT_EQ(std::memcmp(even.data(), uneven.data(), kCount * sizeof(float)), 0);
}

TEST(GradientSum, HasTheSameBitsWhenMicrobatchesMoveBetweenSteps) {
  const Options options{.microbatches = 12, .microbatch_size = 1};
  std::vector<MicrobatchPlan> plans{make_plan(options, 3)};
  for (const std::vector<comm::LeafRange>& ranges : {std::vector<comm::LeafRange>{{0, 2}, {2, 4}, {6, 6}},
                                                     {{0, 6}, {6, 2}, {8, 4}},
                                                     {{0, 4}, {4, 6}, {10, 2}},
                                                     {{0, 4}, {4, 4}, {8, 4}}})
    plans.push_back({12, 1, ranges});
  const auto even = sum_with({plans.front()}), moved = sum_with(plans);  // which compares the steps' sums
  EXPECT_EQ(std::memcmp(even.data(), moved.data(), kCount * sizeof(float)), 0);
}
}  // namespace
}  // namespace distdl::parallel
