// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>

namespace distdl::kernels::cuda {

/// A sum per sample, see reduction.hpp: the mean of its squared errors.
template <class T>
struct SampleError {
  const T* predictions;
  const float* targets;
  double* errors;       // (samples)
  std::int64_t values;  ///< values of a sample
  DISTDL_HOST_DEVICE double operator()(std::int64_t sample, std::int64_t j) const {
    const std::int64_t i = sample * values + j;
    const double error = static_cast<double>(predictions[i]) - targets[i];
    return error * error;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t sample, double sum) const {
    errors[sample] = sum / static_cast<double>(values);
  }
};

/// One sum over the samples, which writes all totals of a loss.
struct TotalError {
  const double* errors;  // (samples)
  float* totals;
  std::int64_t samples;
  DISTDL_HOST_DEVICE double operator()(std::int64_t, std::int64_t sample) const { return errors[sample]; }
  DISTDL_HOST_DEVICE void finish(std::int64_t, double sum) const {
    totals[0] = static_cast<float>(sum);
    totals[1] = 0;
    totals[2] = static_cast<float>(samples);
  }
};

template <class T>
struct ErrorGradient {
  const T* predictions;
  const float* targets;
  T* gradient;
  double scale;  ///< factor of the error: 2 * the loss's scale / values of a sample
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    gradient[i] = static_cast<float>((static_cast<double>(predictions[i]) - targets[i]) * scale);
  }
};

}  // namespace distdl::kernels::cuda
