// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/host_device.hpp>

namespace distdl::kernels::cuda {

/// Threads that share one sum. Lane l adds the terms l, l + kLanes, l + 2 kLanes, ... in that order; then a binary tree
/// adds lane l + half to lane l for half = kLanes / 2, ..., 1. The order depends on the number of terms only.
inline constexpr int kLanes = 256;

template <class Reduce>
DISTDL_HOST_DEVICE double lane_sum(const Reduce& reduce, std::int64_t result, int lane, std::int64_t terms) {
  double sum = 0;
  for (std::int64_t j = lane; j < terms; j += kLanes) sum += reduce(result, j);
  return sum;
}

}  // namespace distdl::kernels::cuda
