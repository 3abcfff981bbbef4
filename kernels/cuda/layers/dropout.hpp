// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>
#include <distdl/kernels/elementwise/functors.hpp>

namespace distdl::kernels::cuda {

/// Forward and backward of dropout for four adjacent values at a time, which share one block of random numbers.
template <class T>
struct Drop {
  const RngKey* rng_key;
  std::uint32_t stream;
  float probability;
  float scale;
  const T* from;
  T* to;
  std::size_t count;  ///< number of values
  DISTDL_HOST_DEVICE void operator()(std::size_t four) const {
    const auto stay = elementwise::Stays{*rng_key, stream, probability}.four(four);
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t i = 4 * four + j;
      if (i < count) to[i] = stay[j] ? from[i] * scale : 0.0f;
    }
  }
};

/// Dropout of a chunk of the sequences, or a slice of the rows, value by value: `run` values of a sample here follow
/// each other in the whole microbatch, where a sample has `step`.
template <class T>
struct DropInChunk {
  const RngKey* rng_key;
  std::uint32_t stream;
  float probability;
  float scale;
  const T* from;
  T* to;
  std::size_t run, step, first;  ///< first: values of a sample before the chunk
  std::size_t before = 0;        ///< values of all runs before the slice
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const std::size_t at = before + i;
    const std::size_t whole = at / run * step + first + at % run;
    const auto stay = elementwise::Stays{*rng_key, stream, probability}.four(whole / 4);
    to[i] = stay[whole % 4] ? from[i] * scale : 0.0f;
  }
};

}  // namespace distdl::kernels::cuda
