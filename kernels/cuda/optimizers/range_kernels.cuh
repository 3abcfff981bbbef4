// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/optimizers/ranges.hpp>

namespace distdl::kernels::cuda {

/// What a block takes of a stretch: short, so that small models too keep a GPU busy.
inline constexpr std::int64_t kPieceOfPart = 2048;
inline constexpr std::int64_t kPiecesOfPart = kPart / kPieceOfPart;

/// body(update, i) for every element i of the stretches, `update` being body.of(table, number of the stretch).
/// table.parts * kPiecesOfPart blocks.
template <class Body>
__global__ void stretches_kernel(StretchTable table, Body body) {
  const std::int64_t part = blockIdx.x / kPiecesOfPart, number = table.stretch_of(part);
  const StretchParts& stretch = table.stretches[number];
  const std::int64_t first = (part - stretch.first_part) * kPart + blockIdx.x % kPiecesOfPart * kPieceOfPart;
  const std::int64_t end = first + kPieceOfPart < stretch.count ? first + kPieceOfPart : stretch.count;
  const auto update = body.of(table, number);
  const std::size_t offset = static_cast<std::size_t>(stretch.offset);
  for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
    body(update, offset + static_cast<std::size_t>(i));
}

}  // namespace distdl::kernels::cuda
