// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include <distdl/app/model/ensemble.hpp>

namespace distdl::app {
namespace {
TEST(Ensemble, AveragesProbabilitiesNotLogits) {
  const std::vector<float> one{0, std::log(3.0f), 1000, 0}, other{std::log(9.0f), 0, 0, 0};
  std::vector<double> mean(4);
  add_probabilities(one, 2, 2, mean);
  add_probabilities(other, 2, 2, mean);
  EXPECT_NEAR(mean[0], (0.25 + 0.9) / 2, 1e-6);
  EXPECT_NEAR(mean[1], (0.75 + 0.1) / 2, 1e-6);
  EXPECT_NEAR(mean[2], (1 + 0.5) / 2, 1e-6) << "large logits do not overflow";
  EXPECT_NEAR(mean[2] + mean[3], 1, 1e-12);
}

TEST(Ensemble, CountsLossAndCorrectRowsWithoutIgnoredOnes) {
  const std::vector<double> rows{0.7, 0.3, 0.4, 0.6, 0.5, 0.5, 1, 0};
  const std::vector<std::int32_t> labels{0, 0, -1, 1};
  const auto totals = totals_of(rows, 2, labels);
  EXPECT_EQ(totals.count, 3);
  EXPECT_EQ(totals.correct, 1);
  EXPECT_TRUE(std::isfinite(totals.loss)) << "although the last label has probability 0";
  EXPECT_NEAR(totals_of(std::span(rows).first(4), 2, std::span(labels).first(2)).loss, -std::log(0.7) - std::log(0.4),
              1e-12);
}
}  // namespace
}  // namespace distdl::app
