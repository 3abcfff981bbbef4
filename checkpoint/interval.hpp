// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interval between saves, from the cost of saves and the cost of failures.
namespace distdl::checkpoint {

/// The total training time of a run, and the number of failures in that time.
struct FailureRecord {
  double seconds = 0;
  int failures = 0;
};

/// Estimated mean seconds between failures. The estimate starts with one assumed failure in one day, which counts like
/// an observed one.
double mean_between_failures(const FailureRecord& record);

/// The optimal time of work between two saves. A save stops work for `save_seconds`; failures are random, on average
/// `mean_seconds` apart. The source is J. T. Daly, "A higher order estimate of the optimum checkpoint interval for
/// restart dumps", Future Generation Computer Systems 22 (2006), equation 37. Its leading term is Young's sqrt(2 * save
/// * mean) of 1974. Both arguments must be positive, and the result is positive.
double daly_interval(double save_seconds, double mean_seconds);

}  // namespace distdl::checkpoint
