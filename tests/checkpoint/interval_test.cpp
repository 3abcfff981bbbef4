// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include <distdl/checkpoint/interval.hpp>

namespace distdl::checkpoint {
namespace {
/// Time lost per second of work with saves every `interval` seconds of it, by Daly's complete model: exponential
/// failures, and saves and rework that may fail, too. Restart times do not move the optimum.
double cost(double interval, double save, double mean) {
  return std::expm1((interval + save) / mean) * mean / interval;
}

double cheapest(double save, double mean) {
  double low = 1e-6 * mean, high = 10 * mean;
  for (int i = 0; i < 300; ++i) {
    double a = low + (high - low) / 3, b = high - (high - low) / 3;
    (cost(a, save, mean) < cost(b, save, mean) ? high : low) = cost(a, save, mean) < cost(b, save, mean) ? b : a;
  }
  return (low + high) / 2;
}

TEST(Interval, LosesHardlyMoreThanTheBestOne) {
  for (double mean : {60.0, 3600.0, 86400.0})
    for (double share : {1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.5}) {
      double save = share * mean, found = daly_interval(save, mean), best = cheapest(save, mean);
      EXPECT_GT(found, 0);
      EXPECT_LT(cost(found, save, mean), 1.001 * cost(best, save, mean)) << save << " of " << mean;
      EXPECT_NEAR(found, best, 0.05 * best) << save << " of " << mean;
    }
}

TEST(Interval, IsYoungsForCheapSaves) {
  EXPECT_NEAR(daly_interval(0.001, 86400), std::sqrt(2 * 0.001 * 86400), 0.01);
}

TEST(Interval, IsTheMeanWhenASaveTakesTwiceAsLong) {
  EXPECT_EQ(daly_interval(200, 100), 100);
  EXPECT_EQ(daly_interval(5000, 100), 100);
}

TEST(Interval, GrowsWithTheCostAndWithTheMean) {
  double before = 0;
  for (double save : {0.01, 0.1, 1.0, 10.0, 100.0}) {
    EXPECT_GT(daly_interval(save, 3600), before);
    before = daly_interval(save, 3600);
  }
  EXPECT_LT(daly_interval(1, 3600), daly_interval(1, 7200));
}

TEST(Interval, MeansAreLearntFromWhatWasSeen) {
  EXPECT_EQ(mean_between_failures({}), 86400);
  EXPECT_EQ(mean_between_failures({86400, 1}), 86400);
  EXPECT_NEAR(mean_between_failures({1000 * 3600.0, 1000}), 3600, 100);
  EXPECT_GT(mean_between_failures({30 * 86400.0, 0}), 30 * 86400);
}
}  // namespace
}  // namespace distdl::checkpoint
