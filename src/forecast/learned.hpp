// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace distdl::forecast {

/// What the error of a forecast may depend on.
struct RunFeatures {
  double ranks = 1;
  double flops = 1;         ///< of a step of all ranks, forward
  double parameters = 1;    ///< of the model
  double microbatches = 1;  ///< of a rank in a step
};

/// What an earlier run has shown of one figure, such as the time of a step. Both are above 0.
struct LearnedRun {
  RunFeatures features;
  double forecast = 1, measured = 1;
};

/// How to correct forecasts of one figure. Errors are shares of what was measured.
struct Learned {
  static constexpr std::size_t kLeastRuns = 3;

  double factor = 1;  ///< of the next forecast
  std::size_t runs = 0;
  double error = 0, largest_error = 0;  ///< of each run's corrected forecast, as learned from the others: mean, largest
  double forecast_error = 0;            ///< mean, without a correction

  /// Only where the correction has made forecasts better.
  bool is_used() const { return runs >= kLeastRuns && error < forecast_error; }
};

/// Ridge regression (Hoerl and Kennard, "Ridge regression: biased estimation for nonorthogonal problems", 1970) of the
/// logarithm of measured / forecast on the logarithms of the features, with cross-validation that leaves out one run
/// (Allen 1974). Features count only within the range that the runs have. Learns nothing from fewer than kLeastRuns.
Learned learn(std::span<const LearnedRun> runs, const RunFeatures& next);

}  // namespace distdl::forecast
