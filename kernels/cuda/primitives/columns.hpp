// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>

namespace distdl::kernels::cuda {

/// Sums over the rows of a row-major matrix, one per column, in an order that depends only on its shape. The rows are
/// divided into chunks. Row r of a chunk belongs to lane r % kColumnLanes, which adds its rows in order. A binary tree
/// adds the lanes. The sums of the chunks are added in order.
inline constexpr int kColumnLanes = 8;
inline constexpr int kColumnsPerBlock = 32;

struct ColumnChunks {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t rows_per_chunk;
  DISTDL_HOST_DEVICE constexpr std::int64_t count() const { return (rows + rows_per_chunk - 1) / rows_per_chunk; }
  DISTDL_HOST_DEVICE constexpr std::int64_t begin(std::int64_t chunk) const { return chunk * rows_per_chunk; }
  DISTDL_HOST_DEVICE constexpr std::int64_t end(std::int64_t chunk) const {
    const std::int64_t next = begin(chunk + 1);
    return next < rows ? next : rows;
  }
};

/// Enough chunks to use the whole GPU if there are few columns; at most 1024.
constexpr ColumnChunks column_chunks(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kBlocks = 1024, kLeastRows = std::int64_t{8} * kColumnLanes;
  const std::int64_t across = (columns + kColumnsPerBlock - 1) / kColumnsPerBlock;
  const std::int64_t wanted = std::max<std::int64_t>(1, kBlocks / across);
  return {rows, columns, std::max(kLeastRows, (rows + wanted - 1) / wanted)};
}

struct TwoColumnSums {
  double first, second;
  DISTDL_HOST_DEVICE TwoColumnSums& operator+=(const TwoColumnSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

/// The scratch memory that sum_columns() needs for partial sums.
template <class Reduce>
constexpr std::size_t column_scratch(const ColumnChunks& chunks) {
  return static_cast<std::size_t>(chunks.count() * chunks.columns) * sizeof(typename Reduce::Sum);
}

/// The sum of lane `lane` over its rows of a chunk. reduce(row, column) is a term.
template <class Reduce>
DISTDL_HOST_DEVICE typename Reduce::Sum column_lane_sum(const Reduce& reduce, const ColumnChunks& chunks,
                                                        std::int64_t chunk, std::int64_t column, int lane) {
  typename Reduce::Sum sum{};
  for (std::int64_t row = chunks.begin(chunk) + lane; row < chunks.end(chunk); row += kColumnLanes)
    sum += reduce(row, column);
  return sum;
}

/// Adds the chunks of a column and passes the sum to reduce.finish(column, sum).
template <class Reduce>
struct FinishColumn {
  const typename Reduce::Sum* partial;  // (chunks, columns)
  ColumnChunks chunks;
  Reduce reduce;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto column = static_cast<std::int64_t>(i);
    constexpr int kAhead = 8;  // loads under way at a time
    typename Reduce::Sum sum{}, next[kAhead];
    for (std::int64_t chunk = 0; chunk < chunks.count(); chunk += kAhead) {
      DISTDL_UNROLL
      for (int k = 0; k < kAhead; ++k)
        if (chunk + k < chunks.count()) next[k] = partial[(chunk + k) * chunks.columns + column];
      DISTDL_UNROLL
      for (int k = 0; k < kAhead; ++k)
        if (chunk + k < chunks.count()) sum += next[k];
    }
    reduce.finish(column, sum);
  }
};

/// The gradient of a bias: the sum of dy, (rows, columns), over its rows.
template <class T>
struct SumOfRows {
  using Sum = double;
  const T* dy;
  float* sums;
  std::int64_t stride;  ///< elements from row to row
  DISTDL_HOST_DEVICE double operator()(std::int64_t row, std::int64_t column) const {
    return dy[row * stride + column];
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t column, double sum) const { sums[column] = static_cast<float>(sum); }
};

class Device;

/// sums[c] = sum of dy[r * stride + c] over all rows r. Uses column_scratch<SumOfRows<T>>(chunks) of the device's
/// scratch. T: a type of activations.
template <class T>
void sum_rows(const Device& device, const ColumnChunks& chunks, const T* dy, std::int64_t stride, float* sums);

}  // namespace distdl::kernels::cuda
