// SPDX-License-Identifier: Apache-2.0
#pragma once

// How often to save: what saves cost against what failures cost.
namespace distdl::checkpoint {

/// How long a run has trained in all, and how often it failed meanwhile.
struct FailureRecord {
  double seconds = 0;
  int failures = 0;
};

/// Mean seconds between failures, as far as a record tells: one failure in a day is believed before anything is known,
/// and counts like one that was seen.
double mean_between_failures(const FailureRecord& record);

/// Seconds of work between the end of a save and the begin of the next that lose least in all, if a save holds work up
/// for `save_seconds` and failures come at random, `mean_seconds` apart. J. T. Daly, "A higher order estimate of the
/// optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), equation 37; its
/// leading term is Young's sqrt(2 * save * mean) of 1974. Both must be positive; the result is, too.
double daly_interval(double save_seconds, double mean_seconds);

}  // namespace distdl::checkpoint
