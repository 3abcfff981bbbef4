// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

/// Sums in double whose order of additions depends only on the number of terms. It is the same on CPU and GPU.
namespace distdl::kernels::elementwise {

/// Lane l of a sum adds the terms l, l + kLanes, l + 2 kLanes, ... in that order. Then a binary tree adds lane l + half
/// to lane l for half = kLanes / 2, ..., 1.
inline constexpr int kLanes = 256;

/// A long sum is a sum of partial sums over so many terms each, all in the order above.
inline constexpr std::size_t kPart = 16384;

constexpr std::size_t parts_of(std::size_t count) {
  return (count + kPart - 1) / kPart;
}

/// The tree.
constexpr double sum_of_lanes(std::array<double, kLanes>& lanes) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// The sum of term(i) over all i below count, on the CPU. Each term is evaluated once.
template <class Term>
double ordered_sum(std::size_t count, const Term& term) {
  std::array<double, kLanes> parts{};
  for (std::size_t part = 0; part < parts_of(count); ++part) {
    std::array<double, kLanes> lanes{};
    const std::size_t end = std::min(count, (part + 1) * kPart);
    for (std::size_t row = part * kPart; row < end; row += kLanes) {
      const std::size_t width = std::min<std::size_t>(kLanes, end - row);
      for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += term(row + lane);
    }
    parts[part % kLanes] += sum_of_lanes(lanes);
  }
  return sum_of_lanes(parts);
}

}  // namespace distdl::kernels::elementwise
