// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <distdl/health/failure_predictor.hpp>

namespace distdl::health {
namespace {
using Count = std::optional<std::int64_t>;

/// Rates the increase of a counter per hour: 0 for none, 1 for about 150, hardly more for more: at most 2, for 22,000.
double rate(const Count& before, const Count& now, double seconds) {
  constexpr double kMost = 2;
  if (!before || !now || *now <= *before || seconds <= 0) return 0;  // or the node was started anew
  return std::min(kMost, std::log1p(static_cast<double>(*now - *before) * 3600 / seconds) / 5);
}

double has_more(const Count& before, const Count& now) {
  return before && now && *now > *before ? 1 : 0;
}

/// How far a value is from `good` to `bad`.
double between(double value, double good, double bad) {
  return std::clamp((value - good) / (bad - good), 0.0, 1.0);
}

double sum_of(const FailurePredictor& predictor, const Features& features) {
  double sum = predictor.bias;
  for (std::size_t i = 0; i < kFeatures; ++i) sum += predictor.weights[i] * features[i];
  return sum;
}

/// The best threshold by F1: each risk of an example is tried.
double best_threshold(const FailurePredictor& predictor, std::span<const Example> examples, double failures) {
  std::vector<std::pair<double, bool>> risks;
  for (const Example& each : examples) risks.emplace_back(predictor.risk(each.features), each.has_failed);
  std::sort(risks.begin(), risks.end(), std::greater<>());
  double right = 0, best = 0, threshold = 1;
  for (std::size_t i = 0; i < risks.size(); ++i) {
    right += risks[i].second;
    if (i + 1 < risks.size() && risks[i + 1].first == risks[i].first) continue;
    const double f1 = 2 * right / (static_cast<double>(i + 1) + failures);
    if (f1 > best) best = f1, threshold = risks[i].first;
  }
  return threshold;
}
}  // namespace

Features features_of(const NodeHealth& before, const NodeHealth& now, double seconds, double slowdown) {
  const GpuHealth none, gpus = now.gpus.value_or(none), gpus_before = before.gpus.value_or(none);
  return {between(slowdown, 1, 3),
          between(now.load.value_or(0), 1.5, 6),
          now.memory_pressure.value_or(0),
          now.io_pressure.value_or(0),
          between(1 - now.free_memory.value_or(1), 0.8, 1),
          rate(before.throttles, now.throttles, seconds),
          rate(before.corrected_errors, now.corrected_errors, seconds),
          has_more(before.uncorrected_errors, now.uncorrected_errors),
          gpus.gpus > 0 ? static_cast<double>(gpus.throttled) / gpus.gpus : 0,
          rate(gpus_before.corrected_errors, gpus.corrected_errors, seconds),
          has_more(gpus_before.uncorrected_errors, gpus.uncorrected_errors)};
}

double FailurePredictor::risk(const Features& features) const {
  return 1 / (1 + std::exp(-sum_of(*this, features)));
}

PredictorQuality quality_of(const FailurePredictor& predictor, std::span<const Example> examples) {
  double alarms = 0, failures = 0, right = 0;
  for (const Example& each : examples) {
    const bool alarm = predictor.is_at_risk(each.features);
    alarms += alarm;
    failures += each.has_failed;
    right += alarm && each.has_failed;
  }
  return {alarms > 0 ? right / alarms : 1, failures > 0 ? right / failures : 1};
}

FailurePredictor train_predictor(std::span<const Example> examples) {
  constexpr int kRounds = 500;
  constexpr double kRate = 4, kDecay = 1e-4;  // kDecay: a perfect split does not make the weights infinite
  const auto failures = static_cast<double>(
      std::count_if(examples.begin(), examples.end(), [](const Example& each) { return each.has_failed; }));
  const double others = static_cast<double>(examples.size()) - failures;
  FailurePredictor predictor;
  predictor.threshold = 2;  // above any risk
  if (failures == 0 || others == 0) return predictor;
  for (int round = 0; round < kRounds; ++round) {
    Features slope{};
    double slope_of_bias = 0;
    for (const Example& each : examples) {
      const double error =
          (predictor.risk(each.features) - each.has_failed) / (each.has_failed ? failures : others) / 2;
      for (std::size_t i = 0; i < kFeatures; ++i) slope[i] += error * each.features[i];
      slope_of_bias += error;
    }
    for (std::size_t i = 0; i < kFeatures; ++i)
      predictor.weights[i] -= kRate * (slope[i] + kDecay * predictor.weights[i]);
    predictor.bias -= kRate * slope_of_bias;
  }
  predictor.threshold = best_threshold(predictor, examples, failures);
  return predictor;
}

}  // namespace distdl::health
