// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <distdl/health/node_health.hpp>

namespace distdl::health {

/// Signs that may announce the failure of a node. Each feature is 0 for a node that is well, and grows to about 1.
inline constexpr std::array kFeatureNames{"slowdown",
                                          "load",
                                          "memory_pressure",
                                          "io_pressure",
                                          "used_memory",
                                          "throttles",
                                          "corrected_errors",
                                          "uncorrected_errors",
                                          "gpus_throttled",
                                          "gpu_corrected_errors",
                                          "gpu_uncorrected_errors"};
inline constexpr std::size_t kFeatures = kFeatureNames.size();
using Features = std::array<double, kFeatures>;

/// Computes features from two readings of a node, `seconds` apart. `slowdown`: how many times longer its ranks take for
/// a microbatch than the median rank; 1 where that is not known. Missing values count as those of a healthy node.
Features features_of(const NodeHealth& before, const NodeHealth& now, double seconds, double slowdown = 1);

/// The state of a node, and whether it failed soon after.
struct Example {
  Features features{};
  bool has_failed = false;
};

/// Logistic regression: the weighted sum of the features as a number between 0 and 1.
struct FailurePredictor {
  Features weights{};
  double bias = 0;
  double threshold = 0.5;  ///< from which on a node is at risk

  double risk(const Features& features) const;
  bool is_at_risk(const Features& features) const { return risk(features) >= threshold; }
};

/// How good a predictor is.
struct PredictorQuality {
  double precision = 0;  ///< the share of its alarms that are right
  double recall = 0;     ///< the share of the failures that it announces
};
PredictorQuality quality_of(const FailurePredictor& predictor, std::span<const Example> examples);

/// Fits the weights by gradient descent; both kinds of examples count the same in sum, since failures are rare. The
/// threshold is the one with the best mean of precision and recall (F1). Without examples of both kinds it never
/// alarms.
FailurePredictor train_predictor(std::span<const Example> examples);

}  // namespace distdl::health
