// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <distdl/checkpoint/interval.hpp>

namespace distdl::checkpoint {

double mean_between_failures(const FailureRecord& record) {
  constexpr double kDay = 86400;
  return (record.seconds + kDay) / (record.failures + 1);
}

double daly_interval(double save_seconds, double mean_seconds) {
  double ratio = save_seconds / (2 * mean_seconds);
  if (ratio >= 1) return mean_seconds;
  return std::sqrt(2 * save_seconds * mean_seconds) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_seconds;
}

}  // namespace distdl::checkpoint
