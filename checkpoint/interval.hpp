// SPDX-License-Identifier: Apache-2.0
#pragma once

// How often to save: the cost of saves against the cost of failures.
namespace distdl::checkpoint {

/// How long a run has trained in all, and how often it failed meanwhile.
struct FailureRecord {
  double seconds = 0;
  int failures = 0;
};

/// Estimated mean seconds between failures. The estimate starts from one assumed failure in one day, which counts like
/// an observed one.
double mean_between_failures(const FailureRecord& record);

/// The optimal time of work between two saves. A save stops work for `save_seconds`; failures are random, on average
/// `mean_seconds` apart. J. T. Daly, "A higher order estimate of the
/// optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), equation 37; its
/// leading term is Young's sqrt(2 * save * mean) of 1974. Both must be positive; the result is, too.
double daly_interval(double save_seconds, double mean_seconds);

}  // namespace distdl::checkpoint
