// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>

namespace distdl::kernels::cuda {

/// Planes of in_height x in_width and their windows. There is a plane per sample and channel. If channels are adjacent,
/// a plane is a sample, and each pixel has `channels` values.
struct PoolWindows {
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t in_height;
  std::int64_t in_width;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t channels = 1;  ///< number of adjacent channels

  struct Place {
    std::int64_t plane, row, column, channel;
  };
  DISTDL_HOST_DEVICE Place in_input(std::int64_t i) const { return place(i, in_height, in_width); }
  DISTDL_HOST_DEVICE Place in_output(std::int64_t i) const { return place(i, out_height, out_width); }
  // The inverse.
  DISTDL_HOST_DEVICE std::int64_t input(const Place& at) const {
    return ((at.plane * in_height + at.row) * in_width + at.column) * channels + at.channel;
  }
  DISTDL_HOST_DEVICE std::int64_t output(const Place& at) const {
    return ((at.plane * out_height + at.row) * out_width + at.column) * channels + at.channel;
  }

  /// The position at which a window begins along one direction of the plane.
  DISTDL_HOST_DEVICE std::int64_t begin(std::int64_t window) const {
    const std::int64_t start = window * stride - padding;
    return start > 0 ? start : 0;
  }
  DISTDL_HOST_DEVICE std::int64_t end(std::int64_t window, std::int64_t extent) const {
    const std::int64_t stop = window * stride - padding + kernel;
    return stop < extent ? stop : extent;
  }

  /// The first window along one direction that contains position `at`. It may be greater than last_window.
  DISTDL_HOST_DEVICE std::int64_t first_window(std::int64_t at) const {
    return at + padding < kernel ? 0 : (at + padding - kernel) / stride + 1;
  }
  DISTDL_HOST_DEVICE std::int64_t last_window(std::int64_t at, std::int64_t windows) const {
    const std::int64_t last = (at + padding) / stride;
    return last < windows ? last : windows - 1;
  }

 private:
  DISTDL_HOST_DEVICE Place place(std::int64_t i, std::int64_t height, std::int64_t width) const {
    const std::int64_t pixel = i / channels;
    return {pixel / width / height, pixel / width % height, pixel % width, i % channels};
  }
};

}  // namespace distdl::kernels::cuda
