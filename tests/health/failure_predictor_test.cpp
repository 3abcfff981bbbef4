// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/health/failure_predictor.hpp>

namespace distdl::health {
namespace {
constexpr double kPeriod = 30;  // seconds between readings

/// Readings of simulated nodes. Nodes that are well are busy, and now and then warm or short of memory. Nodes that will
/// fail show it in their last half hour: memory errors that become more, heat and slow ranks, or memory that runs out;
/// one in ten shows nothing.
class Traces {
 public:
  explicit Traces(unsigned seed) : random_(seed) {}

  void add_node(bool fails) {
    constexpr int kReadings = 60;
    const int kind = static_cast<int>(uniform() * 10);
    NodeHealth now{.load = 1.0, .memory_pressure = 0.0, .free_memory = 0.5, .throttles = 100, .corrected_errors = 3};
    for (int i = 0; i < kReadings; ++i) {
      const NodeHealth before = now;
      const double progress = static_cast<double>(i) / kReadings;
      double slowdown = 1 + 0.1 * uniform();
      now.load = 0.8 + 0.6 * uniform();
      now.free_memory = 0.3 + 0.3 * uniform();
      now.memory_pressure = uniform() < 0.05 ? 0.1 * uniform() : 0.0;
      if (uniform() < 0.03) now.throttles = *now.throttles + 1;
      if (uniform() < 0.01) now.corrected_errors = *now.corrected_errors + 1;
      if (uniform() < 0.02) slowdown = 1.5;
      if (fails && kind < 4) now.corrected_errors = *now.corrected_errors + poisson(1 + 5 * progress);
      if (fails && kind >= 4 && kind < 7) {
        now.throttles = *now.throttles + poisson(3);
        slowdown += 0.8 + 0.5 * uniform();
      }
      if (fails && kind >= 7 && kind < 9) {
        now.free_memory = 0.02 + 0.08 * uniform();
        now.memory_pressure = 0.3 + 0.4 * uniform();
      }
      examples.push_back({features_of(before, now, kPeriod, slowdown), fails});
    }
  }
  std::vector<Example> examples;

 private:
  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  std::int64_t poisson(double mean) { return std::poisson_distribution<std::int64_t>(mean)(random_); }
  std::mt19937 random_;
};

std::vector<Example> traces(unsigned seed, int well, int failing) {
  Traces traces(seed);
  for (int i = 0; i < well; ++i) traces.add_node(false);
  for (int i = 0; i < failing; ++i) traces.add_node(true);
  return traces.examples;
}

TEST(FailurePredictor, AnnouncesFailuresOfNodesThatItHasNotSeen) {
  const FailurePredictor predictor = train_predictor(traces(1, 100, 30));
  const auto quality = quality_of(predictor, traces(2, 200, 40));
  EXPECT_GT(quality.precision, 0.85);
  EXPECT_GT(quality.recall, 0.7) << "one in ten shows nothing";
}

TEST(FailurePredictor, LearnsWhichSignsMatter) {
  const FailurePredictor predictor = train_predictor(traces(3, 100, 30));
  for (const char* name : {"slowdown", "memory_pressure", "used_memory", "throttles", "corrected_errors"}) {
    const auto at =
        std::find(kFeatureNames.begin(), kFeatureNames.end(), std::string_view(name)) - kFeatureNames.begin();
    EXPECT_GT(predictor.weights[static_cast<std::size_t>(at)], 0.5) << name;
  }
  EXPECT_FALSE(predictor.is_at_risk({}));
}

TEST(FailurePredictor, OfOneKindOfExamplesNeverAlarms) {
  Features worst;
  worst.fill(1);
  EXPECT_FALSE(train_predictor({}).is_at_risk(worst));
  EXPECT_FALSE(train_predictor(traces(4, 10, 0)).is_at_risk(worst));
}

TEST(FailurePredictor, NoCountOfErrorsOutweighsAllOtherSigns) {
  const GpuHealth none{.gpus = 1, .corrected_errors = 0, .uncorrected_errors = 0};
  const GpuHealth many{.gpus = 1, .corrected_errors = 1'000'000'000, .uncorrected_errors = 1'000'000'000};
  const NodeHealth before{.throttles = 0, .corrected_errors = 0, .gpus = none};
  const NodeHealth now{.throttles = 1'000'000'000, .corrected_errors = 1'000'000'000, .gpus = many};
  for (const double feature : features_of(before, now, kPeriod)) EXPECT_LE(feature, 2);
}

TEST(FailurePredictor, ANodeThatTellsNothingIsWell) {
  EXPECT_EQ(features_of({}, {}, 30), Features{});
  const NodeHealth before{.throttles = 1000}, after{.throttles = 3};
  EXPECT_EQ(features_of(before, after, 30), Features{}) << "it was started anew";
}
}  // namespace
}  // namespace distdl::health
