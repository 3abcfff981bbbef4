// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/optimizers/ranges.hpp>

namespace distdl::kernels::cuda {

/// Elements of a range per block. The number is small, so that small models also use the whole GPU.
inline constexpr std::int64_t kPieceOfPart = 2048;
inline constexpr std::int64_t kPiecesOfPart = kPart / kPieceOfPart;

/// Calls body(update, i) for every element i of the ranges, where `update` is body.of(table, number of the range).
/// Needs table.parts * kPiecesOfPart blocks.
template <class Body>
__global__ void ranges_kernel(RangeTable table, Body body) {
  const std::int64_t part = blockIdx.x / kPiecesOfPart, number = table.range_of(part);
  const RangeParts& range = table.ranges[number];
  const std::int64_t first = (part - range.first_part) * kPart + blockIdx.x % kPiecesOfPart * kPieceOfPart;
  const std::int64_t end = first + kPieceOfPart < range.count ? first + kPieceOfPart : range.count;
  const auto update = body.of(table, number);
  const std::size_t offset = static_cast<std::size_t>(range.offset);
  for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
    body(update, offset + static_cast<std::size_t>(i));
}

}  // namespace distdl::kernels::cuda
