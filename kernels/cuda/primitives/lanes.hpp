// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>

namespace distdl::kernels::cuda {

// Arithmetic on whole rows is written as bodies, body(row, lanes). A warp or a block runs them (rows.cuh), and a test
// runs them on the CPU in the same order of additions (tests/kernels/cuda/on_cpu.hpp). `lanes` are the threads that
// share the row:
//   lanes.each(count, visit)                 visit(j) for each j < count; lane l has j = l, l + lanes, l + 2 lanes, ...
//   lanes.reduce(count, start, visit, merge) visit(state, j) in the same way, with a state per lane; then the
//                                            states are merged in pairs, lane l with l + half, half = lanes / 2, ..., 1
//                                            within warps of 32, then over warps. All lanes get the result.
//   lanes.once(act)                          act() by one lane
// If each() reads values that another lane wrote, a reduce() must be in between. All lanes must make the same calls.

template <class Lanes, class Term>
DISTDL_HOST_DEVICE float sum_over(const Lanes& lanes, std::int64_t count, const Term& term) {
  return lanes.reduce(
      count, 0.0f, [&](float& sum, std::int64_t j) { sum += term(j); }, [](float a, float b) { return a + b; });
}

/// Two sums in one pass.
struct TwoSums {
  float first, second;
};

template <class Lanes, class Terms>
DISTDL_HOST_DEVICE TwoSums two_sums_over(const Lanes& lanes, std::int64_t count, const Terms& terms) {
  return lanes.reduce(
      count, TwoSums{0, 0},
      [&](TwoSums& sums, std::int64_t j) {
        const TwoSums more = terms(j);
        sums.first += more.first;
        sums.second += more.second;
      },
      [](const TwoSums& a, const TwoSums& b) {
        return TwoSums{a.first + b.first, a.second + b.second};
      });
}

}  // namespace distdl::kernels::cuda
