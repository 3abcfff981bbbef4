// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/attention/attention.hpp>
#include <distdl/kernels/cuda/primitives/row_kernels.cuh>

// The parts of the kernels in flash_kernels.cuh: blocks of four warps with 16 rows each, operands of the tensor cores
// (see tensor_core.cuh for the lanes), and tiles in shared memory.
namespace distdl::kernels::cuda {

inline constexpr int kFlashThreads = 128;
inline constexpr int kFlashRows = 64;  ///< queries or keys of a block and of a tile
inline constexpr int kPiece = 16;      ///< rows that one matrix instruction takes

/// Two adjacent values, which are moved together.
using TwoValues [[gnu::may_alias]] = std::uint32_t;
using FourValues [[gnu::may_alias]] = std::uint64_t;

/// Values of one head of a sample, one row per position, with `stride` values between rows.
template <class T>
struct HeadRows {
  T* first;
  std::int64_t stride;
  std::int64_t count;  ///< positions
  std::int64_t width;  ///< a multiple of 8

  /// The head of an array (N, T, of_all, D).
  static __device__ HeadRows of(T* array, const AttentionExtents& extents, std::int64_t of_all, std::int64_t sample,
                                std::int64_t head) {
    return {array + (sample * extents.places * of_all + head) * extents.width, of_all * extents.width, extents.places,
            extents.width};
  }
  __device__ bool has(std::int64_t row, std::int64_t column) const { return row < count && column < width; }
  __device__ T* at(std::int64_t row, std::int64_t column) const { return first + row * stride + column; }
};

/// The place of a lane in an operand.
struct FlashLane {
  int group, turn;  ///< lane / 4, lane % 4
  int warp;
  static __device__ FlashLane here() {
    const int thread = static_cast<int>(threadIdx.x);
    return {thread % kWarp / 4, thread % 4, thread / kWarp};
  }
};

/// 64 rows in shared memory, with zeros for missing rows. The gap of 16 bytes avoids bank conflicts between rows.
template <int kWidth>
struct Tile {
  static constexpr int kStride = kWidth + 8;
  std::uint16_t bits[kFlashRows * kStride];

  /// Called by all threads of the block, which must synchronize before and after it.
  template <class T>
  __device__ void load(const HeadRows<const T>& rows, std::int64_t first) {
    constexpr int kFours = kWidth / 4;
    for (int i = static_cast<int>(threadIdx.x); i < kFlashRows * kFours; i += kFlashThreads) {
      const int row = i / kFours, column = i % kFours * 4;
      FourValues four = 0;
      if (rows.has(first + row, column)) four = *reinterpret_cast<const FourValues*>(rows.at(first + row, column));
      *reinterpret_cast<FourValues*>(&bits[row * kStride + column]) = four;
    }
  }

  /// Operand b of a product along the width: column `group` is row `row + group` of the tile, and k begins at `column`.
  __device__ void along_width(const FlashLane& lane, int row, int column, std::uint32_t (&b)[2]) const {
    const std::uint16_t* from = &bits[(row + lane.group) * kStride + column + 2 * lane.turn];
    b[0] = *reinterpret_cast<const TwoValues*>(from);
    b[1] = *reinterpret_cast<const TwoValues*>(from + 8);
  }
  /// Operand b of a product along the rows: column `group` is column `column + group` of the tile, and k begins at
  /// `row`.
  __device__ void along_rows(const FlashLane& lane, int row, int column, std::uint32_t (&b)[2]) const {
    const std::uint16_t* from = &bits[(row + 2 * lane.turn) * kStride + column + lane.group];
    b[0] = from[0] | std::uint32_t{from[kStride]} << 16;
    b[1] = from[8 * kStride] | std::uint32_t{from[9 * kStride]} << 16;
  }
};

/// The 16 rows of a warp as operands a of products along the width.
template <int kWidth>
struct WarpRows {
  std::uint32_t a[kWidth / kPiece][4];

  template <class T>
  __device__ void load(const FlashLane& lane, const HeadRows<const T>& rows, std::int64_t first) {
    DISTDL_UNROLL
    for (int k = 0; k < kWidth / kPiece; ++k) {
      DISTDL_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::int64_t row = first + lane.group + i % 2 * 8;
        const int column = k * kPiece + 2 * lane.turn + i / 2 * 8;
        a[k][i] = 0;
        if (rows.has(row, column)) a[k][i] = *reinterpret_cast<const TwoValues*>(rows.at(row, column));
      }
    }
  }
};

/// c += the warp's rows times eight rows of a tile, which begin at `row`.
template <class Core, class T, int kWidth>
__device__ void multiply_rows(const FlashLane& lane, const WarpRows<kWidth>& rows, const Tile<kWidth>& tile, int row,
                              float (&c)[4]) {
  DISTDL_UNROLL
  for (int k = 0; k < kWidth / kPiece; ++k) {
    std::uint32_t b[2];
    tile.along_width(lane, row, k * kPiece, b);
    Core::template multiply_add<T>(c, rows.a[k], b);
  }
}

/// 16 rows of kWidth sums.
template <int kWidth>
struct WarpSums {
  float c[kWidth / 8][4];

  __device__ void clear() {
    DISTDL_UNROLL
    for (auto& eight : c)
      for (float& sum : eight) sum = 0;
  }
  /// Adds weights, (16 x 16) as two adjacent results c, times 16 rows of a tile, which begin at `row`.
  template <class Core, class T>
  __device__ void add(const FlashLane& lane, const float (&left)[4], const float (&right)[4], const Tile<kWidth>& tile,
                      int row) {
    const std::uint32_t a[4] = {Core::template pair<T>(left[0], left[1]), Core::template pair<T>(left[2], left[3]),
                                Core::template pair<T>(right[0], right[1]), Core::template pair<T>(right[2], right[3])};
    DISTDL_UNROLL
    for (int n = 0; n < kWidth / 8; ++n) {
      std::uint32_t b[2];
      tile.along_rows(lane, row, n * 8, b);
      Core::template multiply_add<T>(c[n], a, b);
    }
  }
  /// Multiplies each sum by the factor of its row: row `group` or `group + 8`.
  __device__ void scale(float upper, float lower) {
    DISTDL_UNROLL
    for (auto& eight : c) {
      eight[0] *= upper;
      eight[1] *= upper;
      eight[2] *= lower;
      eight[3] *= lower;
    }
  }
  template <class Core, class T>
  __device__ void store(const FlashLane& lane, const HeadRows<T>& rows, std::int64_t first) const {
    DISTDL_UNROLL
    for (int n = 0; n < kWidth / 8; ++n) {
      DISTDL_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::int64_t row = first + lane.group + 8 * half;
        const int column = n * 8 + 2 * lane.turn;
        const std::uint32_t pair = Core::template pair<T>(c[n][2 * half], c[n][2 * half + 1]);
        if (rows.has(row, column)) *reinterpret_cast<TwoValues*>(rows.at(row, column)) = pair;
      }
    }
  }
};

}  // namespace distdl::kernels::cuda
