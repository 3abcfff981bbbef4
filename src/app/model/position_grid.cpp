// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/app/model/position_grid.hpp>

namespace distdl::app {
namespace {
/// Keys, "Cubic convolution interpolation", 1981, with the parameter of Pillow and of PyTorch's antialias.
double cubic_weight(double distance) {
  constexpr double kA = -0.5;
  const double x = std::abs(distance);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return ((x - 5) * x + 8) * x * kA - 4 * kA;
  return 0;
}

/// Weights of the sources of each of `to` places, (to, from).
std::vector<double> cubic_weights(std::int64_t from, std::int64_t to) {
  constexpr double kReach = 2;
  const double scale = static_cast<double>(from) / static_cast<double>(to), wide = std::max(scale, 1.0);
  std::vector<double> weights(static_cast<std::size_t>(from * to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - kReach * wide + 0.5))),
               high = std::min(from, static_cast<std::int64_t>(std::floor(centre + kReach * wide + 0.5)));
    double sum = 0;
    double* const row = weights.data() + i * from;
    for (std::int64_t j = low; j < high; ++j)
      sum += row[j] = cubic_weight((static_cast<double>(j) - centre + 0.5) / wide);
    for (std::int64_t j = low; j < high; ++j) row[j] /= sum;
  }
  return weights;
}
}  // namespace

PositionGrid square_grid(std::int64_t rows) {
  const auto side =
      static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(std::max<std::int64_t>(rows - 1, 0)))));
  return side > 0 && side * side == rows - 1 ? PositionGrid{side, side} : PositionGrid{};
}

std::vector<float> resampled_positions(std::span<const float> rows, const PositionGrid& from, const PositionGrid& to) {
  const std::int64_t values = std::ssize(rows) / (1 + from.height * from.width);
  const auto down = cubic_weights(from.height, to.height), right = cubic_weights(from.width, to.width);
  const auto row_of = [&](std::int64_t place) { return rows.data() + (1 + place) * values; };
  std::vector<float> result(rows.begin(), rows.begin() + values);
  std::vector<double> sums(static_cast<std::size_t>(values));
  for (std::int64_t y = 0; y < to.height; ++y)
    for (std::int64_t x = 0; x < to.width; ++x) {
      std::ranges::fill(sums, 0);
      for (std::int64_t i = 0; i < from.height; ++i)
        for (std::int64_t j = 0; j < from.width; ++j) {
          const double weight =
              down[static_cast<std::size_t>(y * from.height + i)] * right[static_cast<std::size_t>(x * from.width + j)];
          if (weight == 0) continue;
          const float* const source = row_of(i * from.width + j);
          for (std::int64_t v = 0; v < values; ++v) sums[static_cast<std::size_t>(v)] += weight * source[v];
        }
      for (const double sum : sums) result.push_back(static_cast<float>(sum));
    }
  return result;
}

}  // namespace distdl::app
