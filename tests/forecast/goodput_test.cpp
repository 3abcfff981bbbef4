// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include <distdl/checkpoint/interval.hpp>
#include <distdl/forecast/goodput.hpp>

namespace distdl::forecast {
namespace {
/// Returns the share by J. T. Daly's model (Future Generation Computer Systems 22, 2006, equation 20), in which the
/// nodes never get fewer: tau / (M exp(R / M) (exp((tau + delta) / M) - 1)). `interval`: tau, `stall`: delta,
/// `recovery`: R, `mean_seconds`: mean time M between failures of any node.
double expected_share(double interval, double stall, double recovery, double mean_seconds) {
  return interval / (mean_seconds * std::exp(recovery / mean_seconds) * std::expm1((interval + stall) / mean_seconds));
}

FailureModel model_of(double mean_seconds) {
  FailureModel model;
  model.nodes = 10;
  model.spares = 1000;  // never fewer nodes
  model.node_mean_seconds = 10 * mean_seconds;
  model.recovery.spare = 40;
  model.restore_seconds = 20;
  model.stall_seconds = 30;
  model.interval_seconds = checkpoint::daly_interval(30, mean_seconds);
  model.work_seconds = 1e6;
  return model;
}

TEST(SimulateFailures, WithoutFailuresOnlySavesTakeTime) {
  FailureModel model;
  model.stall_seconds = 2;
  model.interval_seconds = 100;
  model.work_seconds = 1000;
  const auto goodput = simulate_failures(model, 1);
  EXPECT_DOUBLE_EQ(goodput.seconds, 1000 + 9 * 2);  // the end is saved anyhow
  EXPECT_DOUBLE_EQ(goodput.share, 1000.0 / 1018);
  EXPECT_EQ(goodput.failures, 0);
}

TEST(SimulateFailures, AgreesWithDalysModel) {
  for (double mean : {2000.0, 10000.0, 50000.0}) {
    const auto model = model_of(mean);
    const auto goodput = simulate_failures(model, 3);
    const double expected = expected_share(model.interval_seconds, 30, 60, mean);
    EXPECT_NEAR(goodput.share / expected, 1, 0.02) << mean;
    EXPECT_NEAR(goodput.failures * mean / goodput.seconds, 1, 0.08) << mean;
  }
}

TEST(SimulateFailures, DalysIntervalIsTheBestOne) {
  auto model = model_of(5000);
  const double best = simulate_failures(model, 5).share;
  for (double factor : {0.25, 4.0}) {
    model.interval_seconds = factor * checkpoint::daly_interval(30, 5000);
    EXPECT_LT(simulate_failures(model, 5).share, best) << factor;
  }
}

TEST(SimulateFailures, WithoutSparesTheOthersContinueMoreSlowly) {
  auto model = model_of(20000);
  model.spares = 0;
  model.repair_seconds = 2000;
  const auto goodput = simulate_failures(model, 1);
  EXPECT_GT(goodput.fewer_nodes_seconds, 0);
  EXPECT_LT(goodput.share, simulate_failures(model_of(20000), 1).share);
  model.least_nodes = 10;  // the job is requeued
  EXPECT_LT(simulate_failures(model, 1).share, goodput.share);
}

TEST(SimulateFailures, SeedsRepeat) {
  EXPECT_EQ(simulate_failures(model_of(5000), 4).share, simulate_failures(model_of(5000), 4).share);
  EXPECT_NE(simulate_failures(model_of(5000), 4).share, simulate_failures(model_of(5000), 5).share);
}

TEST(SimulateFailures, ARunThatNeverGetsOnIsGivenUp) {
  auto model = model_of(1);
  model.interval_seconds = 600;
  EXPECT_EQ(simulate_failures(model, 1).share, 0);
}
}  // namespace
}  // namespace distdl::forecast
