// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <distdl/kernels/cuda/attention/flash_tiles.cuh>

// Attention without a matrix of scores in memory. Dao, "FlashAttention-2", 2023: forward keeps the logarithm of each
// row's sum. Backward computes the scores again, once for the gradient of the queries and once for that of keys and
// values. Each sum then belongs to one warp and has one order. kWidth is the width of the heads, padded with zeros to
// 32, 64 or 128.
namespace distdl::kernels::cuda {

struct FlashArguments {
  AttentionExtents of;
  float scale;  ///< factor of the scores
  /// (N, heads, T): the logarithm to base 2 of the sum of exp(score) over the positions that a query sees.
  float* logarithms;
  /// (N, heads, T): the sum of y * dy over a row.
  const float* means;

  __device__ std::int64_t at(std::int64_t sample, std::int64_t head, std::int64_t place) const {
    return (sample * of.heads + head) * of.places + place;
  }
  /// The factor from scores to exponents of 2.
  __device__ float to_base_2() const { return scale * 1.4426950408889634f; }
  __device__ bool sees(std::int64_t query, std::int64_t key) const {
    return query < of.places && key < of.places && (!of.is_causal || key <= query);
  }
  /// Number of keys that some of the 16 queries starting with `first` see. Products with other keys are skipped.
  __device__ std::int64_t keys_seen_from(std::int64_t first) const {
    return of.is_causal && first + kPiece < of.places ? first + kPiece : of.places;
  }
  DISTDL_HOST_DEVICE std::int64_t tiles() const { return (of.places + kFlashRows - 1) / kFlashRows; }
};

/// The work of a block. If queries do not see all keys, blocks with the most work come first.
struct FlashBlock {
  std::int64_t tile, head, sample;
  static __device__ FlashBlock here(std::int64_t tiles, std::int64_t heads) {
    const std::int64_t block = blockIdx.x;
    return {block % tiles, block / tiles % heads, block / tiles / heads};
  }
};

template <class Merge>
__device__ float of_quad(float value, const Merge& merge) {
  value = merge(value, of_other_lane(value, 1));
  return merge(value, of_other_lane(value, 2));
}

/// The largest exponent of two rows of queries, and this lane's part of the sum.
struct OnlineSoftmax {
  float largest[2] = {-std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  float sum[2] = {0, 0};

  /// Converts the exponents of 64 keys to powers of 2, relative to the largest exponent so far. Returns the factor for
  /// earlier powers.
  __device__ void take(float (&scores)[kFlashRows / 8][4], float (&factor)[2]) {
    DISTDL_UNROLL
    for (int half = 0; half < 2; ++half) {
      float most = largest[half];
      DISTDL_UNROLL
      for (auto& eight : scores) {
        most = larger(most, eight[2 * half]);
        most = larger(most, eight[2 * half + 1]);
      }
      most = of_quad(most, larger);
      factor[half] = exp2f(largest[half] - most);
      largest[half] = most;
      sum[half] *= factor[half];
      DISTDL_UNROLL
      for (auto& eight : scores)
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          eight[i] = exp2f(eight[i] - most);
          sum[half] += eight[i];
        }
    }
  }
  __device__ float total(int half) const {
    return of_quad(sum[half], [](float a, float b) { return a + b; });
  }
  static __device__ float larger(float a, float b) { return a > b ? a : b; }
};

/// A block has 64 queries of a head. Blocks: tiles * heads * samples.
template <class Core, class T, int kWidth>
__global__ void __launch_bounds__(kFlashThreads) flash_forward_kernel(FlashArguments arguments, const T* x, T* y) {
  __shared__ __align__(16) Tile<kWidth> keys;
  __shared__ __align__(16) Tile<kWidth> values;
  const AttentionExtents& of = arguments.of;
  const auto [reversed, head, sample] = FlashBlock::here(arguments.tiles(), of.heads);
  const std::int64_t tile = arguments.tiles() - 1 - reversed, kv = head * of.kv_heads / of.heads;
  const auto lane = FlashLane::here();
  const std::int64_t first = tile * kFlashRows + lane.warp * kPiece;  // query of the warp
  const std::int64_t seen = arguments.keys_seen_from(first);
  WarpRows<kWidth> queries;
  queries.load(lane, HeadRows<const T>::of(x, of, of.x_heads(), sample, head), first);
  OnlineSoftmax softmax;
  WarpSums<kWidth> output;
  output.clear();
  const std::int64_t tiles = of.is_causal ? tile + 1 : arguments.tiles();
  for (std::int64_t of_keys = 0; of_keys < tiles; ++of_keys) {
    __syncthreads();
    keys.load(HeadRows<const T>::of(x, of, of.x_heads(), sample, of.heads + kv), of_keys * kFlashRows);
    values.load(HeadRows<const T>::of(x, of, of.x_heads(), sample, of.heads + of.kv_heads + kv), of_keys * kFlashRows);
    __syncthreads();
    float scores[kFlashRows / 8][4] = {}, factor[2];
    DISTDL_UNROLL
    for (int n = 0; n < kFlashRows / 8; ++n) {
      if (of_keys * kFlashRows + n * 8 < seen) multiply_rows<Core, T>(lane, queries, keys, n * 8, scores[n]);
      DISTDL_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::int64_t query = first + lane.group + i / 2 * 8;
        const std::int64_t key = of_keys * kFlashRows + n * 8 + 2 * lane.turn + i % 2;
        const bool is_seen = key < of.places && (!of.is_causal || key <= query);
        scores[n][i] = is_seen ? scores[n][i] * arguments.to_base_2() : -std::numeric_limits<float>::infinity();
      }
    }
    softmax.take(scores, factor);
    output.scale(factor[0], factor[1]);
    DISTDL_UNROLL
    for (int n = 0; n < kFlashRows / 8; n += 2)
      if (of_keys * kFlashRows + n * 8 < seen)
        output.template add<Core, T>(lane, scores[n], scores[n + 1], values, n * 8);
  }
  const float totals[2] = {softmax.total(0), softmax.total(1)};
  output.scale(1 / totals[0], 1 / totals[1]);
  output.template store<Core>(lane, HeadRows<T>::of(y, of, of.heads, sample, head), first);
  for (int half = 0; half < 2; ++half) {
    const std::int64_t query = first + lane.group + 8 * half;
    if (lane.turn == 0 && query < of.places && arguments.logarithms != nullptr)
      arguments.logarithms[arguments.at(sample, head, query)] = softmax.largest[half] + log2f(totals[half]);
  }
}

/// Probabilities and gradients of the scores (before `scale`), from scores and gradients of the probabilities.
struct ScoreGradient {
  float probability, gradient;
  static __device__ ScoreGradient of(float score, float slope, float logarithm, float mean, float to_base_2,
                                     bool is_seen) {
    const float probability = is_seen ? exp2f(score * to_base_2 - logarithm) : 0.0f;
    return {probability, is_seen ? probability * (slope - mean) : 0.0f};
  }
};

/// The gradient of the queries. Blocks are as in forward.
template <class Core, class T, int kWidth>
__global__ void __launch_bounds__(kFlashThreads)
    flash_query_gradient_kernel(FlashArguments arguments, const T* x, const T* dy, T* dx) {
  __shared__ __align__(16) Tile<kWidth> keys;
  __shared__ __align__(16) Tile<kWidth> values;
  const AttentionExtents& of = arguments.of;
  const auto [reversed, head, sample] = FlashBlock::here(arguments.tiles(), of.heads);
  const std::int64_t tile = arguments.tiles() - 1 - reversed, kv = head * of.kv_heads / of.heads;
  const auto lane = FlashLane::here();
  const std::int64_t first = tile * kFlashRows + lane.warp * kPiece;
  const std::int64_t seen = arguments.keys_seen_from(first);
  WarpRows<kWidth> queries, slopes;
  queries.load(lane, HeadRows<const T>::of(x, of, of.x_heads(), sample, head), first);
  slopes.load(lane, HeadRows<const T>::of(dy, of, of.heads, sample, head), first);
  float logarithms[2], means[2];
  for (int half = 0; half < 2; ++half) {
    const std::int64_t query = first + lane.group + 8 * half;
    const bool is_query = query < of.places;
    logarithms[half] = is_query ? arguments.logarithms[arguments.at(sample, head, query)] : 0;
    means[half] = is_query ? arguments.means[arguments.at(sample, head, query)] : 0;
  }
  WarpSums<kWidth> gradient;
  gradient.clear();
  const std::int64_t tiles = of.is_causal ? tile + 1 : arguments.tiles();
  for (std::int64_t of_keys = 0; of_keys < tiles; ++of_keys) {
    __syncthreads();
    keys.load(HeadRows<const T>::of(x, of, of.x_heads(), sample, of.heads + kv), of_keys * kFlashRows);
    values.load(HeadRows<const T>::of(x, of, of.x_heads(), sample, of.heads + of.kv_heads + kv), of_keys * kFlashRows);
    __syncthreads();
    for (int piece = 0; piece < kFlashRows && of_keys * kFlashRows + piece < seen; piece += kPiece) {
      float scores[2][4] = {}, of_probabilities[2][4] = {};
      DISTDL_UNROLL
      for (int n = 0; n < 2; ++n) {
        multiply_rows<Core, T>(lane, queries, keys, piece + n * 8, scores[n]);
        multiply_rows<Core, T>(lane, slopes, values, piece + n * 8, of_probabilities[n]);
        DISTDL_UNROLL
        for (int i = 0; i < 4; ++i) {
          const std::int64_t query = first + lane.group + i / 2 * 8;
          const std::int64_t key = of_keys * kFlashRows + piece + n * 8 + 2 * lane.turn + i % 2;
          scores[n][i] = ScoreGradient::of(scores[n][i], of_probabilities[n][i], logarithms[i / 2], means[i / 2],
                                           arguments.to_base_2(), arguments.sees(query, key))
                             .gradient;
        }
      }
      gradient.template add<Core, T>(lane, scores[0], scores[1], keys, piece);
    }
  }
  gradient.scale(arguments.scale, arguments.scale);
  gradient.template store<Core>(lane, HeadRows<T>::of(dx, of, of.x_heads(), sample, head), first);
}

/// The gradients of keys and values. A block has 64 keys of a key head. Blocks: tiles * kv_heads * samples.
template <class Core, class T, int kWidth>
__global__ void __launch_bounds__(kFlashThreads)
    flash_key_gradient_kernel(FlashArguments arguments, const T* x, const T* dy, T* dx) {
  __shared__ __align__(16) Tile<kWidth> queries;
  __shared__ __align__(16) Tile<kWidth> slopes;
  __shared__ float logarithms[kFlashRows];
  __shared__ float means[kFlashRows];
  const AttentionExtents& of = arguments.of;
  const auto [tile, kv, sample] = FlashBlock::here(arguments.tiles(), of.kv_heads);
  const auto lane = FlashLane::here();
  const std::int64_t first = tile * kFlashRows + lane.warp * kPiece;  // key of the warp
  const std::int64_t key_head = of.heads + kv, value_head = of.heads + of.kv_heads + kv;
  WarpRows<kWidth> keys, values;
  keys.load(lane, HeadRows<const T>::of(x, of, of.x_heads(), sample, key_head), first);
  values.load(lane, HeadRows<const T>::of(x, of, of.x_heads(), sample, value_head), first);
  WarpSums<kWidth> of_keys, of_values;
  of_keys.clear();
  of_values.clear();
  const std::int64_t shared_by = of.heads / of.kv_heads;
  for (std::int64_t head = kv * shared_by; head < (kv + 1) * shared_by; ++head)
    for (std::int64_t of_queries = of.is_causal ? tile : 0; of_queries < arguments.tiles(); ++of_queries) {
      const std::int64_t start = of_queries * kFlashRows;
      __syncthreads();
      queries.load(HeadRows<const T>::of(x, of, of.x_heads(), sample, head), start);
      slopes.load(HeadRows<const T>::of(dy, of, of.heads, sample, head), start);
      if (threadIdx.x < kFlashRows) {
        const std::int64_t query = start + threadIdx.x;
        const bool is_query = query < of.places;
        logarithms[threadIdx.x] = is_query ? arguments.logarithms[arguments.at(sample, head, query)] : 0;
        means[threadIdx.x] = is_query ? arguments.means[arguments.at(sample, head, query)] : 0;
      }
      __syncthreads();
      for (int piece = 0; piece < kFlashRows && start + piece < of.places; piece += kPiece) {
        if (first >= arguments.keys_seen_from(start + piece)) continue;
        float scores[2][4] = {}, gradients[2][4] = {};
        DISTDL_UNROLL
        for (int n = 0; n < 2; ++n) {
          multiply_rows<Core, T>(lane, keys, queries, piece + n * 8, scores[n]);
          multiply_rows<Core, T>(lane, values, slopes, piece + n * 8, gradients[n]);
          DISTDL_UNROLL
          for (int i = 0; i < 4; ++i) {
            const std::int64_t key = first + lane.group + i / 2 * 8;
            const int query = piece + n * 8 + 2 * lane.turn + i % 2;
            const auto both = ScoreGradient::of(scores[n][i], gradients[n][i], logarithms[query], means[query],
                                                arguments.to_base_2(), arguments.sees(start + query, key));
            scores[n][i] = both.probability;
            gradients[n][i] = both.gradient;
          }
        }
        of_values.template add<Core, T>(lane, scores[0], scores[1], slopes, piece);
        of_keys.template add<Core, T>(lane, gradients[0], gradients[1], queries, piece);
      }
    }
  of_keys.scale(arguments.scale, arguments.scale);
  of_keys.template store<Core>(lane, HeadRows<T>::of(dx, of, of.x_heads(), sample, key_head), first);
  of_values.template store<Core>(lane, HeadRows<T>::of(dx, of, of.x_heads(), sample, value_head), first);
}

}  // namespace distdl::kernels::cuda
