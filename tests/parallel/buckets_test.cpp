// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/pace.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/parallel/buckets.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
using List = std::vector<Bucket>;
const std::vector<std::size_t> kPlaces{1000, 800, 750, 300, 0};

TEST(Buckets, BeginWithTheTotalsAndEndWithTheFirstLayer) {
  EXPECT_EQ(buckets_of(kPlaces, 1016, 1), (List{{1000, 1016}, {800, 1000}, {750, 800}, {300, 750}, {0, 300}}));
  EXPECT_EQ(buckets_of(kPlaces, 1016, 200), (List{{1000, 1016}, {800, 1000}, {300, 800}, {0, 300}}));
  EXPECT_EQ(buckets_of(kPlaces, 1016, 600), (List{{1000, 1016}, {300, 1000}, {0, 300}}));
  EXPECT_EQ(buckets_of(kPlaces, 1016, 1015), (List{{1000, 1016}, {0, 1000}}));
}

TEST(Buckets, AreOneWhereTheyWouldHaveAllOrNothingIsKnown) {
  EXPECT_EQ(buckets_of(kPlaces, 1016, 1016), (List{{0, 1016}}));
  EXPECT_EQ(buckets_of({}, 1016, 1), (List{{0, 1016}}));
}

TEST(Buckets, AreNotTooMany) {
  std::vector<std::size_t> places;
  for (std::size_t place = 16000; place > 0; place -= 16) places.push_back(place);
  places.push_back(0);
  const auto buckets = buckets_of(places, 16016, 1);
  EXPECT_LE(buckets.size(), 101u);
  EXPECT_GE(buckets.size(), 80u);
  for (std::size_t i = 1; i < buckets.size(); ++i) EXPECT_EQ(buckets[i].end, buckets[i - 1].first);
  EXPECT_EQ(buckets.back().first, 0u);
}

TEST(Buckets, AreSmallOnASlowNetworkAndLargeWhereASumTakesLongToBegin) {
  const auto best = [](std::size_t floats, double latency, double bandwidth) {
    return best_bucket(floats, [=](std::size_t each) { return latency + 4 * static_cast<double>(each) / bandwidth; });
  };
  constexpr std::size_t kMib = 1 << 18;  // floats
  EXPECT_EQ(best(3 * kMib, 60e-6, 125e6), kMib / 4);
  EXPECT_EQ(best(12 * kMib, 60e-6, 1.2e9), kMib);
  EXPECT_EQ(best(48 * kMib, 60e-6, 1.2e9), 2 * kMib);
  EXPECT_EQ(best(480 * kMib, 60e-6, 1.2e10), 16 * kMib);
  EXPECT_EQ(best(48 * kMib, 1, 1e12), 48 * kMib) << "one sum";
  EXPECT_EQ(best(1000, 60e-6, 125e6), 1000u) << "too few for several";
}

TEST(Buckets, OfRanksOnOneHostAreTheWholeArena) {
  world::run_threads(2, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      EXPECT_EQ(best_bucket(communicator, {2, {{0, 1}, {1, 1}}}, 1 << 24), std::size_t{1} << 24);
    });
  });
}

/// Rank 1 computes the last bucket only when rank 0 has the sum of the first one.
TEST(Buckets, HaveTheirSumsBeforeTheLastOneIsComputed) {
  constexpr std::size_t kFloats = 1016, kFirst = 1000;
  std::atomic<bool> has_first = false;
  world::run_threads(2, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      auto backend = kernels::make_backend({.backend = "reference"});
      const auto plan = make_plan({.microbatches = 2, .microbatch_size = 1}, 2);
      GradientSum sum(*backend, communicator, plan, kFloats, {.places = {kFirst, 0}, .bucket_mib = 1e-6});
      sum.allocate();
      float* const arena = sum.microbatch_arena();
      std::fill(arena, arena + kFloats, 1.0f);
      sum.set_final(kFirst);
      if (world.rank() == Rank(0)) {
        EXPECT_EQ(*sum.next_sum(), (Bucket{kFirst, kFloats}));
        has_first = true;
      }
      const Stopwatch watch;
      while (!has_first && watch.seconds() < paced(20)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_TRUE(has_first);
      sum.add();
      const float* const all = sum.finish();
      EXPECT_TRUE(std::all_of(all, all + kFloats, [](float one) { return one == 2.0f; }));
    });
  });
}
}  // namespace
}  // namespace distdl::parallel
