// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include <distdl/kernels/cuda/primitives/host_device.hpp>

namespace distdl::kernels::cuda {

/// The largest of some numbers and the sum of exp(number - largest), in one pass. Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018. A NaN makes the sum NaN.
struct Exponentials {
  float largest;
  float sum;

  DISTDL_HOST_DEVICE static Exponentials none() { return {-std::numeric_limits<float>::infinity(), 0.0f}; }
  DISTDL_HOST_DEVICE void add(float number) {
    if (number > largest) {
      sum = sum * std::exp(largest - number) + 1;
      largest = number;
    } else if (number != -std::numeric_limits<float>::infinity()) {
      sum += std::exp(number - largest);
    }
  }
  /// If both largest numbers are equal, even infinite, nothing is scaled.
  DISTDL_HOST_DEVICE static Exponentials merged(const Exponentials& a, const Exponentials& b) {
    const float largest = a.largest > b.largest ? a.largest : b.largest;
    return {largest, a.scaled_to(largest) + b.scaled_to(largest)};
  }

 private:
  DISTDL_HOST_DEVICE float scaled_to(float other) const {
    return largest == other ? sum : sum * std::exp(largest - other);
  }
};

}  // namespace distdl::kernels::cuda
