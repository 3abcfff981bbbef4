// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <distdl/app/sweep/sweep.hpp>
#include <distdl/base/philox.hpp>

namespace distdl::app {
namespace {
/// In [0, 1), by seed, run and key alone.
double draw_of(const Sweep& sweep, std::size_t run, std::size_t key) {
  const auto block = Philox::block(static_cast<std::uint64_t>(sweep.seed), run, key);
  const auto bits = (std::uint64_t{block[0]} << 32 | block[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

std::string value_at(const SweptKey& key, double draw) {
  if (!key.values.empty()) {
    const auto count = static_cast<double>(key.values.size());
    return key.values[std::min(key.values.size() - 1, static_cast<std::size_t>(draw * count))];
  }
  const auto spread = [&](double least, double most) {
    return key.is_log ? std::exp(std::log(least) + (std::log(most) - std::log(least)) * draw)
                      : least + (most - least) * draw;
  };
  if (!key.is_whole) return fmt::format("{}", std::clamp(spread(key.least, key.most), key.least, key.most));
  const double whole = std::floor(spread(key.least, key.most + 1));  // each number has its share
  return fmt::format("{:.0f}", std::clamp(whole, key.least, key.most));
}

std::string set_of(const SweptKey& key, const std::string& value) {
  return key.key + "=" + value;
}

/// The last key changes fastest.
std::vector<SweepPoint> grid_of(const Sweep& sweep) {
  std::vector<SweepPoint> points{{}};
  for (const SweptKey& key : sweep.keys) {
    std::vector<SweepPoint> longer;
    for (const SweepPoint& point : points)
      for (const std::string& value : key.values) {
        longer.push_back(point);
        longer.back().push_back(set_of(key, value));
      }
    points = std::move(longer);
  }
  return points;
}
}  // namespace

std::vector<SweepPoint> points_of(const Sweep& sweep) {
  if (sweep.method == SweepMethod::grid) return grid_of(sweep);
  std::vector<SweepPoint> points(static_cast<std::size_t>(sweep.runs));
  for (std::size_t run = 0; run < points.size(); ++run)
    for (std::size_t i = 0; i < sweep.keys.size(); ++i)
      points[run].push_back(set_of(sweep.keys[i], value_at(sweep.keys[i], draw_of(sweep, run, i))));
  return points;
}

std::string name_of_run(std::size_t run) {
  return fmt::format("{:04}", run);
}

}  // namespace distdl::app
