// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>
#include <distdl/kernels/elementwise/ordered_sum.hpp>

namespace distdl::kernels::cuda {

/// Threads that share one sum, in the order of ordered_sum.hpp.
using elementwise::kLanes;

template <class Reduce>
DISTDL_HOST_DEVICE double lane_sum(const Reduce& reduce, std::int64_t result, int lane, std::int64_t terms) {
  double sum = 0;
  for (std::int64_t j = lane; j < terms; j += kLanes) sum += reduce(result, j);
  return sum;
}

}  // namespace distdl::kernels::cuda
