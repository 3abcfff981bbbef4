// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/pipeline/balance.hpp>

namespace distdl::parallel::pipeline {
namespace {
using testing::ElementsAre;

double sum(const std::vector<double>& costs, std::size_t first, std::size_t end) {
  return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first),
                         costs.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
}

double slowest(const std::vector<double>& costs, const std::vector<int>& sizes) {
  double most = 0;
  std::size_t first = 0;
  for (int size : sizes) {
    most = std::max(most, sum(costs, first, first + static_cast<std::size_t>(size)));
    first += static_cast<std::size_t>(size);
  }
  return most;
}

/// Of all divisions of the layers from `first` on.
double least_slowest(const std::vector<double>& costs, std::size_t first, int stages) {
  if (stages == 1) return sum(costs, first, costs.size());
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t end = first + 1; end + static_cast<std::size_t>(stages) - 1 <= costs.size(); ++end)
    least = std::min(least, std::max(sum(costs, first, end), least_slowest(costs, end, stages - 1)));
  return least;
}

TEST(BalanceStages, IsTheBestOfAllDivisions) {
  std::mt19937 random(1);
  for (int layers = 1; layers <= 9; ++layers)
    for (int stages = 1; stages <= layers; ++stages)
      for (int seed = 0; seed < 10; ++seed) {
        std::vector<double> costs;
        for (int i = 0; i < layers; ++i) costs.push_back(std::uniform_int_distribution<int>(0, 9)(random));
        const auto sizes = balance_stages(costs, stages);
        ASSERT_EQ(sizes.size(), static_cast<std::size_t>(stages));
        EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), 0), layers);
        EXPECT_GE(*std::min_element(sizes.begin(), sizes.end()), 1);
        EXPECT_EQ(slowest(costs, sizes), least_slowest(costs, 0, stages));
      }
  EXPECT_THAT(balance_stages(std::vector<double>{9, 1, 1, 1, 6}, 3), ElementsAre(1, 3, 1));
}

TEST(NearestStages, AreTheWantedOnesOrTheNearest) {
  using Sizes = std::vector<std::int64_t>;
  const std::vector<double> costs{9, 1, 1, 1, 6};
  EXPECT_EQ(nearest_stages(costs, 3, Sizes{2, 1, 2}), (Sizes{2, 1, 2}));
  EXPECT_EQ(nearest_stages(costs, 3, Sizes{1, 1, 1}), (Sizes{1, 1, 3}));
  EXPECT_EQ(nearest_stages(costs, 3, Sizes{0, 9, 0}), (Sizes{1, 3, 1}));
  EXPECT_EQ(nearest_stages(costs, 3, Sizes{-4, 2, 1}), (Sizes{1, 2, 2}));
  EXPECT_EQ(nearest_stages(costs, 3, {}), (Sizes{1, 3, 1})) << "balanced";
  EXPECT_EQ(nearest_stages(costs, 1, Sizes{2, 3}), (Sizes{5}));
  EXPECT_THROW(nearest_stages(costs, 6, Sizes{1, 1, 1, 1, 1, 1}), ConfigError);
}

TEST(BalanceStages, RefusesMoreStagesThanLayers) {
  const std::vector<double> costs{1, 2};
  EXPECT_THROW(balance_stages(costs, 3), ConfigError);
  EXPECT_THROW(balance_stages(costs, 0), ConfigError);
}
}  // namespace
}  // namespace distdl::parallel::pipeline
