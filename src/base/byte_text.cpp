// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include <distdl/base/byte_text.hpp>

namespace distdl {

std::string bytes_text(double bytes) {
  constexpr double kStep = 1024, kShort = 10;  // smaller numbers have a decimal
  static constexpr std::array kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= kStep && unit + 1 < kUnits.size(); ++unit) bytes /= kStep;
  return fmt::format("{:.{}f} {}", bytes, unit > 0 && bytes < kShort ? 1 : 0, kUnits[unit]);
}

}  // namespace distdl
