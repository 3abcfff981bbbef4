// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/host_device.hpp>

namespace distdl::kernels::cuda {

/// Planes of in_height x in_width and the windows over them; there are as many planes as samples times channels.
struct PoolWindows {
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t in_height;
  std::int64_t in_width;
  std::int64_t out_height;
  std::int64_t out_width;

  /// Where a window begins along one direction, in the plane.
  DISTDL_HOST_DEVICE std::int64_t begin(std::int64_t window) const {
    const std::int64_t start = window * stride - padding;
    return start > 0 ? start : 0;
  }
  DISTDL_HOST_DEVICE std::int64_t end(std::int64_t window, std::int64_t extent) const {
    const std::int64_t stop = window * stride - padding + kernel;
    return stop < extent ? stop : extent;
  }

  /// The first of the windows along one direction that contain position `at`; may lie beyond last_window.
  DISTDL_HOST_DEVICE std::int64_t first_window(std::int64_t at) const {
    return at + padding < kernel ? 0 : (at + padding - kernel) / stride + 1;
  }
  DISTDL_HOST_DEVICE std::int64_t last_window(std::int64_t at, std::int64_t windows) const {
    const std::int64_t last = (at + padding) / stride;
    return last < windows ? last : windows - 1;
  }
};

}  // namespace distdl::kernels::cuda
