// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <ctime>

namespace distdl {

/// A point in time in the time zone of this process, for fmt to print, which has had no such function since version 12.
/// Times before 1970 become its begin, and those after the year 5138 that year.
inline std::tm in_local_time(double seconds_since_1970) {
  const auto time = static_cast<std::time_t>(std::clamp(seconds_since_1970, 0.0, 1e11));
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return parts;
}

}  // namespace distdl
