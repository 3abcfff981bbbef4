// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/philox.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
constexpr std::size_t kTail = 4;
/// What follows each other with "auto".
constexpr Compression kTurns[] = {Compression::int8, Compression::none, Compression::bf16};

tensor::ArenaLayout layout() {
  tensor::ArenaLayout all;
  all.add("a.weight", {40, 61});
  all.add("a.bias", {40});
  all.add("a.mean", {1500}, tensor::Role::statistic);
  all.add("b.weight", {30, 5, 3, 3});
  return all;
}

float contribution(int rank, int step, std::size_t i) {
  const auto bits = Philox::block(3, static_cast<std::uint64_t>(step * 100 + rank), i);
  return 1 + static_cast<float>(i % 7) + Philox::uniform(bits[0]);
}

/// All encodings but "none".
std::vector<Compression> all() {
  std::vector<Compression> some;
  for (const Encoding& each : kEncodings)
    if (each.name.value != Compression::none) some.push_back(each.name.value);
  return some;
}

struct Summed {
  std::vector<float> last;        ///< sum of the last step
  std::vector<double> all;        ///< sums of all steps
  std::vector<double> expected;   ///< what all ranks have contributed
  std::vector<double> residuals;  ///< of all ranks
};

/// `steps` steps, with a bucket for each layer or one for all. With `moments` they are coded as first moments.
Summed sum_of(Compression compression, int ranks, int steps, bool in_buckets, bool moments = false) {
  const auto views = layout();
  const std::size_t count = views.size() + kTail;
  Options options{.microbatches = 2 * ranks + 1,
                  .microbatch_size = 1,
                  .compression = {.encoding = compression, .fraction = 0.05, .rank = 2}};
  Summed result{{}, std::vector<double>(count), std::vector<double>(count), std::vector<double>(count)};
  std::vector<std::vector<float>> totals(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  world::run_threads(ranks, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    auto backend = kernels::make_backend({.backend = "reference"});
    const auto plan = make_plan(options, ranks);
    const std::vector<std::size_t> places{views.size(), views.tensors()[3].offset, 0};
    GradientSum sum(*backend, *communicator, plan, count,
                    in_buckets ? GradientSum::Setup{.places = places, .bucket_mib = 1e-6} : GradientSum::Setup{});
    CompressedSum compressed(*communicator, options, views, sum.buckets());
    auto state = make_compression_state(options, views);
    compressed.set_state(state);
    sum.allocate({.compressed = &compressed});
    std::memset(sum.first_partial(), 0, sum.capacity() * 16);
    constexpr float kBeta = 0.9F;
    std::vector<float> moment(views.size()), square(views.size());
    for (std::size_t i = 0; i < views.size(); ++i) square[i] = static_cast<float>(1 + i % 3);
    if (moments) compressed.code_moments(Moments{moment.data(), square.data(), kBeta});
    for (int step = 0; step < steps; ++step) {
      if (compression == Compression::automatic) compressed.use(kTurns[step % 3]);
      const auto range = plan.of(world.rank());
      for (int m = range.first; m < range.first + range.count; ++m) {
        float* const arena = sum.microbatch_arena();
        for (std::size_t i = 0; i < count; ++i) arena[i] = 0;
        const auto fill = [&](std::size_t first, std::size_t number) {
          for (std::size_t i = first; i < first + number; ++i) arena[i] = contribution(m, step, i);
        };
        for (const auto& view : views.tensors()) fill(view.offset, view.count);
        fill(views.size(), kTail);
        if (m + 1 == range.first + range.count)
          for (const std::size_t place : places)
            if (in_buckets) sum.set_final(place);
        const std::lock_guard lock(mutex);
        for (std::size_t i = 0; i < count; ++i) result.expected[i] += arena[i];
        sum.add();
      }
      const float* const total = sum.finish();
      for (std::size_t i = 0; i < views.size(); ++i) moment[i] = kBeta * moment[i] + (1 - kBeta) * total[i];
      const std::lock_guard lock(mutex);
      totals[static_cast<std::size_t>(world.rank().value)].assign(total, total + count);
      if (world.rank() == Rank(0))
        for (std::size_t i = 0; i < count; ++i) result.all[i] += total[i];
    }
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < views.size(); ++i) result.residuals[i] += state.residual.as<float>()[i];
  });
  result.last = totals.front();
  for (const auto& total : totals)
    EXPECT_EQ(std::memcmp(total.data(), result.last.data(), count * sizeof(float)), 0) << "all ranks have the same";
  return result;
}

TEST(CompressedSum, WhatIsSummedAndTheResidualsAreWhatWasContributed) {
  for (const Compression compression : all())
    for (const int ranks : {1, 3}) {
      constexpr int kSteps = 4;
      const auto [last, all, expected, residuals] = sum_of(compression, ranks, kSteps, false);
      double left = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(all[i] + residuals[i], expected[i], 2e-4 * expected[i] + 1e-3)
            << OneOf(compression).name() << ", " << ranks << " ranks, " << i;
        left += std::abs(residuals[i]);
      }
      EXPECT_EQ(left == 0, ranks == 1) << OneOf(compression).name();
      const auto all_views = layout();
      const auto& views = all_views.tensors();
      for (std::size_t i = views[1].offset; i < views[3].offset; ++i) ASSERT_EQ(residuals[i], 0);
    }
}

TEST(CompressedSum, ErrorFeedbackKeepsResidualsBounded) {
  for (const Compression compression : all()) {
    const auto lacks = [&](int steps) {
      const auto result = sum_of(compression, 2, steps, false);
      double lack = 0, size = 0;
      for (std::size_t i = 0; i < result.expected.size(); ++i) {
        lack += std::abs(result.expected[i] - result.all[i]);
        size += result.expected[i];
      }
      return lack / size;
    };
    EXPECT_LT(lacks(60), compression == Compression::topk ? 0.25 : 0.05) << OneOf(compression).name();
  }
}

TEST(CompressedSum, OfFirstMomentsIsWhatWasContributedToo) {
  for (const Compression compression : {Compression::topk, Compression::onebit, Compression::int8})
    for (const int ranks : {2, 3}) {
      const auto [last, all, expected, residuals] = sum_of(compression, ranks, 20, false, true);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(all[i] + residuals[i], expected[i], 1e-3 * expected[i] + 1e-3)
            << OneOf(compression).name() << ", " << ranks << " ranks, " << i;
      const auto divided = sum_of(compression, ranks, 20, true, true);
      EXPECT_EQ(std::memcmp(last.data(), divided.last.data(), last.size() * sizeof(float)), 0);
      EXPECT_NE(last, sum_of(compression, ranks, 20, false).last) << OneOf(compression).name();
    }
}

TEST(CompressedSum, BitsDoNotDependOnBuckets) {
  for (const Compression compression : all())
    for (const int ranks : {2, 3}) {
      const auto whole = sum_of(compression, ranks, 3, false), divided = sum_of(compression, ranks, 3, true);
      EXPECT_EQ(std::memcmp(whole.last.data(), divided.last.data(), whole.last.size() * sizeof(float)), 0)
          << OneOf(compression).name();
      EXPECT_EQ(whole.residuals, divided.residuals);
    }
}
}  // namespace
}  // namespace distdl::parallel
