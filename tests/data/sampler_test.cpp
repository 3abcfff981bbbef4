// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/sampler.hpp>

namespace distdl::data {
namespace {

std::vector<std::int64_t> order(const Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> result;
  for (std::int64_t p = 0; p < sampler.samples(); ++p) result.push_back(sampler.index(epoch * sampler.samples() + p));
  return result;
}

bool is_permutation(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

TEST(Sampler, SeesEverySampleOncePerEpochForAnySize) {
#ifdef DISTDL_SANITIZED
  constexpr std::int64_t kSmall = 70, kLargest = 4096;
#else
  constexpr std::int64_t kSmall = 300, kLargest = 65536;
#endif
  std::vector<std::int64_t> sizes(kSmall);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (std::int64_t power = 512; power <= kLargest; power *= 2)
    sizes.insert(sizes.end(), {power - 1, power, power + 1});
  sizes.insert(sizes.end(), {1009, 7919, 9000, 10007, 12000, 60000, 104729});
  for (std::int64_t size : sizes)
    for (std::uint64_t seed : {0ull, 1ull, 0xFFFFFFFFFFFFFFFFull}) {
      Sampler sampler(seed, size);
      EXPECT_TRUE(is_permutation(order(sampler, 0))) << size << " seed " << seed;
      EXPECT_TRUE(size > 2000 || is_permutation(order(sampler, 12345))) << size << " seed " << seed;
    }
}

TEST(Sampler, OtherEpochsAndSeedsGiveOtherOrders) {
  Sampler sampler(1, 1000);
  EXPECT_EQ(order(sampler, 3), order(Sampler(1, 1000), 3));
  EXPECT_NE(order(sampler, 0), order(sampler, 1));
  EXPECT_NE(order(sampler, 0), order(Sampler(2, 1000), 0));
  EXPECT_NE(order(sampler, 1), order(Sampler(2, 1000), 0));
}

TEST(Sampler, KnowsTheEpochOfAPosition) {
  Sampler sampler(1, 10);
  EXPECT_EQ(sampler.epoch(0), 0);
  EXPECT_EQ(sampler.epoch(9), 0);
  EXPECT_EQ(sampler.epoch(10), 1);
  EXPECT_EQ(sampler.epoch(1'000'000'000'009), 100'000'000'000);
}

// A resumed run of any later version has to go on in the order in which it began.
TEST(Sampler, NeverChangesItsOrder) {
  std::vector<std::int64_t> first;
  Sampler sampler(42, 10000);
  for (std::int64_t p = 0; p < 6; ++p) first.push_back(sampler.index(p));
  EXPECT_EQ(first, (std::vector<std::int64_t>{6981, 2278, 7725, 5014, 4259, 8864}));
}

// Each of the n! orders of few samples turns up about equally often: chi-square with n!-1 degrees of freedom.
TEST(Sampler, ReachesAllOrdersOfFewSamplesEvenly) {
  for (auto [samples, orders, limit] : {std::tuple{2, 2, 15.1}, {3, 6, 25.7}, {4, 24, 56.9}, {5, 120, 185.0}}) {
    std::map<std::vector<std::int64_t>, int> counts;
    Sampler sampler(7, samples);
    const int expected = 200;
    for (int epoch = 0; epoch < expected * orders; ++epoch) ++counts[order(sampler, epoch)];
    EXPECT_EQ(static_cast<int>(counts.size()), orders);
    double chi_square = 0;
    for (const auto& [values, count] : counts) chi_square += (count - expected) * (count - expected) / double(expected);
    EXPECT_LT(chi_square, limit) << samples << " samples";  // above it by chance once in 10,000
  }
}

// First place, and neighbours in the order, at a size that is far from a power of 4 and so walks most.
TEST(Sampler, SpreadsLargeSetsEvenly) {
  const std::int64_t samples = 1030, epochs = 4000, bins = 10;
  Sampler sampler(3, samples);
  std::vector<double> first(bins), step(bins);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    std::int64_t a = sampler.index(epoch * samples), b = sampler.index(epoch * samples + 1);
    ++first[static_cast<std::size_t>(a * bins / samples)];
    ++step[static_cast<std::size_t>((b - a + samples) % samples * bins / samples)];
  }
  const double expected = double(epochs) / bins;
  for (const auto& counts : {first, step}) {
    double chi_square = 0;
    for (double count : counts) chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi_square, 33.7);  // 9 degrees of freedom, once in 10,000
  }
}

TEST(Sampler, ServesSetsBeyondFourBillion) {
  Sampler sampler(1, 5'000'000'000'000);
  std::vector<std::int64_t> drawn;
  for (std::int64_t p = 0; p < 1000; ++p) drawn.push_back(sampler.index(p));
  EXPECT_GT(*std::max_element(drawn.begin(), drawn.end()), 4'900'000'000'000);
  EXPECT_GE(*std::min_element(drawn.begin(), drawn.end()), 0);
  std::sort(drawn.begin(), drawn.end());
  EXPECT_EQ(std::unique(drawn.begin(), drawn.end()), drawn.end());
}

TEST(Sampler, RefusesAnEmptySet) {
  EXPECT_THROW(Sampler(1, 0), ConfigError);
  EXPECT_THROW(Sampler(1, -5), ConfigError);
}

}  // namespace
}  // namespace distdl::data
