// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace distdl::forecast {

/// Properties on which the error of a forecast may depend.
struct RunFeatures {
  double ranks = 1;
  double flops = 1;         ///< operations of a step of all ranks, forward
  double parameters = 1;    ///< parameters of the model
  double microbatches = 1;  ///< microbatches of a rank in a step
};

/// Forecast and measurement of one figure of an earlier run, such as the time of a step. Both are above 0.
struct LearnedRun {
  RunFeatures features;
  double forecast = 1, measured = 1;
};

/// Correction of forecasts of one figure. Errors are fractions of the measured value.
struct Learned {
  static constexpr std::size_t kLeastRuns = 3;

  double factor = 1;  ///< factor for the next forecast
  std::size_t runs = 0;
  double error = 0, largest_error = 0;  ///< errors of each run's forecast, as corrected by the others: mean, largest
  double forecast_error = 0;            ///< mean without a correction

  /// True if the correction has made forecasts better.
  bool is_used() const { return runs >= kLeastRuns && error < forecast_error; }
};

/// Ridge regression (Hoerl and Kennard, "Ridge regression: biased estimation for nonorthogonal problems", 1970) of the
/// logarithm of measured / forecast on the logarithms of the features, with cross-validation that leaves out one run
/// (Allen 1974). Features count only within the range that the runs have. Learns nothing from fewer than kLeastRuns.
Learned learn(std::span<const LearnedRun> runs, const RunFeatures& next);

}  // namespace distdl::forecast
