// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
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

/// How the gradients become final, and in which buckets they are summed.
struct Overlap {
  std::vector<std::size_t> places = {};
  double bucket_mib = 0;
};

/// One step with each plan.
std::vector<float> sum_with(const std::vector<MicrobatchPlan>& plans, const Overlap& overlap = {}) {
  std::vector<float> result;
  std::mutex mutex;
  world::run_threads(static_cast<int>(plans.front().ranges.size()), [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    auto backend = kernels::make_backend({.backend = "reference"});
    GradientSum sum(*backend, *communicator, plans.front(), kCount,
                    {.places = overlap.places, .bucket_mib = overlap.bucket_mib});
    sum.allocate();
    float* const address = sum.first_partial();
    if (std::any_of(plans.begin(), plans.end(), [&](const auto& plan) { return plan.ranges != plans[0].ranges; }))
      sum.allocate_spare();
    for (const MicrobatchPlan& plan : plans) {
      sum.set_plan(plan);
      auto range = plan.of(world.rank());
      for (int m = range.first; m < range.first + range.count; ++m) {
        float* arena = sum.microbatch_arena();
        const bool last = m + 1 == range.first + range.count;
        std::size_t end = kCount;
        for (std::size_t place : overlap.places) {  // what lies before is not there yet
          for (std::size_t i = place; i < end; ++i) arena[i] = gradient(m, i);
          if (last) sum.set_final(place);
          end = place;
        }
        for (std::size_t i = 0; i < end; ++i) arena[i] = gradient(m, i);
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

std::vector<float> sum_with(int microbatches, const std::vector<double>& speeds, std::size_t steps,
                            const Overlap& overlap = {}) {
  return sum_with(std::vector(steps, make_plan({.microbatches = microbatches, .microbatch_size = 1}, speeds)), overlap);
}

bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

TEST(GradientSum, PiecesAreCompleteAtDifferentTimes) {
  constexpr int kMicrobatches = 11;
  world::run_threads(2, [](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    auto backend = kernels::make_backend({.backend = "reference"});
    const auto plan = make_plan({.microbatches = kMicrobatches}, 2);
    const GradientSum::Pieces pieces{{{0, 100}, {900, kCount}}, {{100, 900}}};
    GradientSum sum(*backend, *communicator, plan, kCount, {.pieces = pieces});
    sum.allocate();
    const auto range = plan.of(world.rank());
    const auto add = [&](int m, std::size_t piece) {
      float* const arena = sum.microbatch_arena(piece);
      for (const auto& [first, end] : pieces[piece])
        for (std::size_t i = first; i < end; ++i) arena[i] = gradient(m, i);
      sum.add(piece);
    };
    for (int step = 0; step < 2; ++step) {
      constexpr int kBehind = 3;  // microbatches by which the second piece is later
      for (int k = 0; k < range.count + kBehind; ++k) {
        if (k < range.count) add(range.first + k, 0);
        if (k >= kBehind) add(range.first + k - kBehind, 1);
      }
      const float* const total = sum.finish();
      for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(total[i], tree_sum(0, kMicrobatches, i)) << i;
    }
  });
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

/// The devices of a rank make their microbatches' gradients final one after the other, the last device first.
std::vector<float> sum_of_devices(int ranks, int microbatches, std::size_t devices, const Overlap& overlap) {
  std::vector<float> result(kCount);
  world::run_threads(ranks, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    std::vector<std::unique_ptr<kernels::Backend>> backends(devices);
    std::vector<kernels::Backend*> all;
    for (auto& backend : backends) all.push_back((backend = kernels::make_backend({.backend = "reference"})).get());
    const auto plan = make_plan({.microbatches = microbatches}, ranks);
    GradientSum sum(*all.front(), *communicator, plan, kCount,
                    {.places = overlap.places, .bucket_mib = overlap.bucket_mib, .devices = all});
    sum.allocate();
    for (int step = 0; step < 2; ++step) {
      for (std::size_t device = devices; device-- > 0;) {
        const auto [first, count] = sum.range(device);
        for (int m = first; m < first + count; ++m) {
          float* const arena = sum.microbatch_arena(0, device);
          for (std::size_t i = 0; i < kCount; ++i) arena[i] = gradient(m, i);
          if (m + 1 == first + count)
            for (const std::size_t place : overlap.places) sum.set_final(place, device);
          sum.add(0, device);
        }
      }
      const float* const total = sum.finish();
      if (world.rank() == Rank(0)) result.assign(total, total + kCount);
    }
    communicator->close();
  });
  return result;
}

TEST(GradientSum, HasTheBitsOfTheTreeForEveryNumberOfDevices) {
  for (const int microbatches : {5, 12})
    for (const auto& overlap : {Overlap{}, Overlap{{992, 500, 0}, 1e-6}})
      for (const int ranks : {1, 2, 3})
        for (const std::size_t devices : {1, 2, 3, 5}) {
          const auto sum = sum_of_devices(ranks, microbatches, devices, overlap);
          for (std::size_t i = 0; i < kCount; ++i)
            ASSERT_EQ(sum[i], tree_sum(0, microbatches, i)) << microbatches << " " << ranks << " " << devices;
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

constexpr double kMib = 1 << 20;

/// Places at every `width` floats; the totals begin at 992.
std::vector<std::size_t> places_every(std::size_t width) {
  std::vector<std::size_t> places;
  for (std::size_t place = 992; place > 0; place -= std::min(width, place)) places.push_back(place);
  places.push_back(0);
  return places;
}

TEST(GradientSum, HasTheSameBitsForEveryBucketOnEveryNumberOfRanks) {
  for (int microbatches : {5, 8, 12}) {
    std::vector<float> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] = tree_sum(0, microbatches, i);
    for (int ranks : {1, 2, 3, 4, 5})
      for (std::size_t floats : {1, 48, 300, 500, 992, 1003})
        EXPECT_TRUE(same_bits(sum_with(microbatches, std::vector<double>(static_cast<std::size_t>(ranks), 1.0), 3,
                                       {places_every(16), static_cast<double>(floats * sizeof(float)) / kMib}),
                              expected))
            << microbatches << " microbatches on " << ranks << " ranks in buckets of " << floats;
  }
}

/// What the slices of a bucket hold, of which the totals, from 992 on, are not a part.
std::vector<std::vector<std::size_t>> slices_of(const std::vector<Bucket>& buckets, int ranks) {
  std::vector<std::vector<std::size_t>> counts;
  for (const Bucket& bucket : buckets) {
    auto& each = counts.emplace_back(static_cast<std::size_t>(ranks), 0);
    std::size_t left = std::min<std::size_t>(bucket.end, 992) - std::min<std::size_t>(bucket.first, 992);
    for (std::size_t& count : each) left -= count = &count == &each.back() ? left : left / 3;
  }
  return counts;
}

/// Of a step: this rank's slices and the totals are there, and nothing else was sent here.
void expect_slices(const GradientSum& sum, const std::vector<std::vector<std::size_t>>& counts, std::size_t self,
                   int microbatches) {
  for (std::size_t b = 0; b < counts.size(); ++b) {
    std::size_t first = sum.buckets()[b].first;
    for (std::size_t r = 0; r < counts[b].size(); first += counts[b][r++])
      for (std::size_t i = first; i < first + counts[b][r]; ++i)
        ASSERT_EQ(sum.result()[i] == tree_sum(0, microbatches, i), r == self) << b << ", " << i << ", " << r;
  }
  for (std::size_t i = 992; i < kCount; ++i) ASSERT_EQ(sum.result()[i], tree_sum(0, microbatches, i)) << i;
}

TEST(GradientSum, GivesEachRankItsSlicesAndThenLetsTheOtherWorkFollow) {
  for (const auto& overlap : {Overlap{}, Overlap{places_every(100), 60 * sizeof(float) / kMib}})
    for (int ranks : {2, 3, 5})
      world::run_threads(ranks, [&](world::World& world) {
        auto communicator = comm::Communicator::connect(world, {});
        auto backend = kernels::make_backend({.backend = "reference"});
        const auto plan = make_plan({.microbatches = 8, .microbatch_size = 1}, ranks);
        GradientSum sum(*backend, *communicator, plan, kCount,
                        {.places = overlap.places, .bucket_mib = overlap.bucket_mib});
        const auto counts = slices_of(sum.buckets(), ranks);
        const std::size_t followers = sum.buckets().size();
        std::vector<std::size_t> followed;
        const std::size_t lag = ranks == 3 ? followers : 1;
        const auto follow = [&](std::size_t number, const std::stop_token& stop) {
          communicator->barrier().wait(stop);
          followed.push_back(number);
        };
        sum.allocate({.counts = counts, .followers = {followers, sum.followers_after(lag, followers), follow}});
        for (int step = 0; step < 3; ++step) {
          const auto range = plan.of(world.rank());
          for (int m = range.first; m < range.first + range.count; ++m) {
            float* const arena = sum.microbatch_arena();
            for (std::size_t i = 0; i < kCount; ++i) arena[i] = gradient(m, i);
            if (m + 1 == range.first + range.count) sum.set_final(500);
            sum.add();
          }
          std::size_t summed = 0;
          for (; sum.next_sum() != nullptr; ++summed) sum.release_followers(summed);
          EXPECT_EQ(summed, sum.buckets().size());
          expect_slices(sum, counts, static_cast<std::size_t>(world.rank().value), 8);
          if (step < 2) sum.release_followers(followers);
          sum.end_step();
          EXPECT_EQ(followed.size(), step < 2 ? followers : summed - 1) << "those that were released";
          EXPECT_TRUE(std::is_sorted(followed.begin(), followed.end()));
          followed.clear();
          EXPECT_GT(sum.seconds(), 0);
        }
        communicator->close();
      });
}

TEST(GradientSum, RefusesToReleaseFollowersThatItDoesNotHave) {
  world::run_threads(1, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    auto backend = kernels::make_backend({.backend = "reference"});
    const auto plan = make_plan({.microbatches = 1, .microbatch_size = 1}, 1);
    GradientSum sum(*backend, *communicator, plan, kCount);
    sum.allocate();
    EXPECT_THROW(sum.release_followers(1), std::logic_error);
    communicator->close();
  });
}

TEST(GradientSum, LetsOtherWorkComeBeforeSums) {
  for (const auto& overlap : {Overlap{}, Overlap{places_every(100), 60 * sizeof(float) / kMib}})
    world::run_threads(3, [&](world::World& world) {
      auto communicator = comm::Communicator::connect(world, {});
      auto backend = kernels::make_backend({.backend = "reference"});
      const auto plan = make_plan({.microbatches = 3, .microbatch_size = 1}, 3);
      GradientSum sum(*backend, *communicator, plan, kCount,
                      {.places = overlap.places, .bucket_mib = overlap.bucket_mib});
      const auto counts = slices_of(sum.buckets(), 3);
      std::vector<std::size_t> before;
      for (std::size_t b = 0; b < sum.buckets().size(); ++b) before.push_back(b + 2);
      const std::size_t followers = before.back() + 1;  // the last one comes after all sums
      std::atomic<std::size_t> followed = 0;
      const auto follow = [&](std::size_t number, const std::stop_token& stop) {
        communicator->barrier().wait(stop);
        EXPECT_EQ(followed++, number);
      };
      sum.allocate({.counts = counts, .followers = {followers, before, follow}});
      for (int step = 0; step < 2; ++step) {
        followed = 0;
        sum.release_followers(1);
        sum.wait_for_followers(1);
        EXPECT_EQ(followed, 1);
        float* const arena = sum.microbatch_arena();
        for (std::size_t i = 0; i < kCount; ++i) arena[i] = gradient(world.rank().value, i);
        sum.add();
        for (std::size_t b = 0; b < before.size(); ++b) {
          sum.release_followers(before[b]);
          sum.next_sum();
          EXPECT_GE(followed, before[b]);
        }
        sum.release_followers(followers);
        sum.finish();
        sum.end_step();
        EXPECT_EQ(followed, followers);
        expect_slices(sum, counts, static_cast<std::size_t>(world.rank().value), 3);
      }
      communicator->close();
    });
}

TEST(GradientSum, GivesTheMemoryOfOthersSlicesBack) {
  constexpr std::size_t kFloats = 1 << 16, kPage = 4096 / sizeof(float), kSlice = kFloats / 4;
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    auto backend = kernels::make_backend({.backend = "reference"});
    const auto plan = make_plan({.microbatches = 2, .microbatch_size = 1}, 2);
    GradientSum sum(*backend, *communicator, plan, kFloats + 16,
                    {.places = {kFloats, kFloats / 2, 0}, .bucket_mib = 1e-6});
    sum.allocate({.counts = {{0, 0}, {kSlice, kSlice}, {kSlice, kSlice}}, .discards = true});
    for (int step = 0; step < 2; ++step) {
      std::fill_n(sum.microbatch_arena(), kFloats + 16, 1.0f);
      sum.add();
      const float* const all = sum.finish();
      for (std::size_t i = 0; i < kFloats; ++i) {
        const bool own = i / kSlice % 2 == static_cast<std::size_t>(world.rank().value);
        const std::size_t within = i % kSlice;
        const bool whole = within >= kPage && within < kSlice - kPage;  // in a page of the slice only
        if (own || whole) {
          ASSERT_EQ(all[i], own ? 2 : 0) << i;
        }
      }
      EXPECT_EQ(all[kFloats], 2);
    }
    communicator->close();
  });
}

TEST(GradientSum, HasTheSameBitsForBucketsAndUnevenOrMovingShares) {
  const Overlap overlap{places_every(100), 60 * sizeof(float) / kMib};
  const auto even = sum_with(12, {1, 1, 1}, 1);
  EXPECT_TRUE(same_bits(sum_with(12, {1, 0.3, 2}, 2, overlap), even));
  std::vector<MicrobatchPlan> plans{make_plan({.microbatches = 12, .microbatch_size = 1}, 3)};
  for (const std::vector<comm::LeafRange>& ranges :
       {std::vector<comm::LeafRange>{{0, 2}, {2, 4}, {6, 6}}, {{0, 6}, {6, 2}, {8, 4}}, {{0, 4}, {4, 4}, {8, 4}}})
    plans.push_back({12, 1, ranges});
  EXPECT_TRUE(same_bits(sum_with(plans, overlap), even));
}

TEST(GradientSum, WithoutMicrobatchesARankStillTakesPart) {
  const MicrobatchPlan plan{4, 1, {{0, 3}, {3, 0}, {3, 1}}};
  EXPECT_TRUE(same_bits(sum_with({plan, plan}, {places_every(64), 1 / kMib}), sum_with(4, {1}, 1)));
}

TEST(GradientSum, TellsEachBucketWhenItsSumIsThere) {
  world::run_threads(2, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      auto backend = kernels::make_backend({.backend = "reference"});
      const auto plan = make_plan({.microbatches = 2, .microbatch_size = 1}, 2);
      GradientSum sum(*backend, communicator, plan, kCount, {.places = {992, 500, 0}, .bucket_mib = 1 / kMib});
      sum.allocate();
      EXPECT_TRUE(sum.is_divided());
      float* const arena = sum.microbatch_arena();
      std::fill(arena + 992, arena + kCount, 1.0f);
      sum.set_final(992);
      std::fill(arena + 500, arena + 992, 2.0f);
      sum.set_final(500);
      std::fill(arena, arena + 500, 3.0f);  // where this is not told, add() finds out
      sum.add();
      for (const Bucket& expected : {Bucket{992, kCount}, Bucket{500, 992}, Bucket{0, 500}}) {
        const Bucket* const bucket = sum.next_sum();
        ASSERT_NE(bucket, nullptr);
        EXPECT_EQ(*bucket, expected);
        const float value = expected.first == 992 ? 2.0f : expected.first == 500 ? 4.0f : 6.0f;
        EXPECT_TRUE(std::all_of(sum.result() + bucket->first, sum.result() + bucket->end,
                                [&](float one) { return one == value; }));
      }
      EXPECT_EQ(sum.next_sum(), nullptr);
      EXPECT_GT(sum.seconds(), 0);
    });
  });
}

/// Rank 1 fails in its backward pass, while sums are under way.
TEST(GradientSum, NothingHangsWhereARankFailsWhileBucketsAreUnderWay) {
  std::atomic<int> told{0};
  const auto body = [&](world::World& world) {
    comm::run_connected(world, {.timeout_seconds = 60}, [&](comm::Communicator& communicator) {
      auto backend = kernels::make_backend({.backend = "reference"});
      const auto plan = make_plan({.microbatches = 3, .microbatch_size = 1}, 3);
      GradientSum sum(*backend, communicator, plan, kCount, {.places = places_every(16), .bucket_mib = 1 / kMib});
      sum.allocate();
      sum.microbatch_arena();
      sum.set_final(world.rank() == Rank(1) ? 992 : 200);
      if (world.rank() == Rank(1)) throw ConfigError("a layer failed");
      sum.add();
      try {
        sum.finish();
      } catch (const comm::PeerLost& lost) {
        EXPECT_EQ(lost.rank(), Rank(1)) << lost.what();
        EXPECT_NE(std::string(lost.what()).find("a layer failed"), std::string::npos) << lost.what();
        EXPECT_THROW(sum.finish(), comm::PeerLost);
        ++told;
        throw;
      }
    });
  };
  const Stopwatch watch;
  EXPECT_THROW(world::run_threads(3, body), Error);
  EXPECT_EQ(told, 2);
  EXPECT_LT(watch.seconds(), 30);
}
}  // namespace
}  // namespace distdl::parallel
