// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/exponentials.hpp>
#include <distdl/kernels/cuda/primitives/gemm.hpp>
#include <distdl/kernels/cuda/primitives/lanes.hpp>
#include <distdl/kernels/layer_spec.hpp>

namespace distdl::kernels::cuda {

/// Extents of an attention layer. x: (N, T, heads + 2 kv_heads, D), y: (N, T, heads, D). A group is the queries that
/// share a key and value head, one after the other: (group_rows, D) against T keys and values.
/// Of a chunk of the sequences x is what JoinContext puts out, with queries of the last places only: y has no others.
struct AttentionExtents {
  std::int64_t samples;
  std::int64_t places;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t width;
  bool is_causal;
  std::int64_t asked = places;  ///< places that have queries
  bool is_joined = false;       ///< x has all queries of a sample before its keys and values

  bool operator==(const AttentionExtents&) const = default;
  DISTDL_HOST_DEVICE constexpr std::int64_t x_heads() const { return heads + 2 * kv_heads; }
  DISTDL_HOST_DEVICE constexpr std::int64_t groups() const { return samples * kv_heads; }
  DISTDL_HOST_DEVICE constexpr std::int64_t group_rows() const { return heads / kv_heads * asked; }
  /// Places before the first query.
  DISTDL_HOST_DEVICE constexpr std::int64_t before() const { return places - asked; }
  /// Scores of one group.
  DISTDL_HOST_DEVICE constexpr std::int64_t scores() const { return group_rows() * places; }
  DISTDL_HOST_DEVICE constexpr std::int64_t queries() const { return samples * heads * asked * width; }
  /// Queries of all heads.
  std::size_t rows() const { return static_cast<std::size_t>(y_heads()); }
  constexpr std::int64_t y_heads() const { return samples * asked * heads; }
  /// Heads of x at all places.
  constexpr std::int64_t all_heads() const { return samples * (asked * heads + places * 2 * kv_heads); }
  DISTDL_HOST_DEVICE constexpr std::int64_t keys() const { return samples * kv_heads * places * width; }
  /// Number of positions that a query sees. The query has row `row` in the scores of its group.
  DISTDL_HOST_DEVICE constexpr std::int64_t seen(std::int64_t row) const {
    return is_causal ? before() + row % asked + 1 : places;
  }

  /// A head of x: of a query, a key or a value, in this order.
  struct Head {
    std::int64_t sample, place, number;
  };
  /// Returns the head at row * D in x.
  DISTDL_HOST_DEVICE constexpr Head head_at(std::int64_t row) const {
    if (!is_joined) return {row / x_heads() / places, row / x_heads() % places, row % x_heads()};
    const std::int64_t others = 2 * kv_heads, own = asked * heads, all = own + places * others;
    const std::int64_t sample = row / all, at = row % all;
    if (at < own) return {sample, before() + at / heads, at % heads};
    return {sample, (at - own) / others, heads + (at - own) % others};
  }

  // Matrix products of groups. All arrays are row-major: queries and outputs (group_rows, D), keys and values (T, D),
  // scores (group_rows, T).

  /// A = keys, B = queries, C = scores; or A = values, B = dy, C = gradient of the probabilities.
  constexpr GemmBatch compare() const {
    return {{true, false, places, group_rows(), width, width, width, places},
            places * width,
            group_rows() * width,
            scores()};
  }
  /// A = values, B = probabilities, C = outputs; or A = keys, B = dscores, C = gradient of the queries.
  constexpr GemmBatch mix() const {
    return {{false, false, width, group_rows(), places, width, places, width},
            places * width,
            scores(),
            group_rows() * width};
  }
  /// A = dy, B = probabilities, C = gradient of the values; or A = queries, B = dscores, C = gradient of the keys.
  constexpr GemmBatch collect() const {
    return {{false, true, width, places, group_rows(), width, places, width},
            group_rows() * width,
            scores(),
            places * width};
  }
};

/// x: (N, T, (heads + 2 kv_heads) * D), or what JoinContext puts out
inline AttentionExtents extents_of(const Attention& spec, const tensor::Shape& x) {
  const AttentionLayout layout = layout_of(spec, x);
  return {x[0],         layout.places, spec.heads,     kv_heads_of(spec),
          layout.width, spec.causal,   layout.queries, spec.queries > 0};
}

/// Arrays in order of the heads: queries (N, heads, T, D), keys and values (N, kv_heads, T, D).
struct SplitHeads {
  float* queries;
  float* keys;
  float* values;
  DISTDL_HOST_DEVICE float* at(const AttentionExtents& of, const AttentionExtents::Head& one) const {
    const auto& [n, t, head] = one;
    if (head < of.heads) return queries + ((n * of.heads + head) * of.asked + t - of.before()) * of.width;
    const std::int64_t kv = (head - of.heads) % of.kv_heads;
    return (head < of.heads + of.kv_heads ? keys : values) + ((n * of.kv_heads + kv) * of.places + t) * of.width;
  }
};

/// cos and sin of t * base^(-2 i / D), (T, D / 2) each.
struct Angles {
  float* cosines;  ///< nullptr: there is no rotation
  float* sines;
};

struct FillAngles {
  Angles angles;
  double base;
  std::int64_t width;
  DISTDL_HOST_DEVICE void operator()(std::size_t index) const {
    const std::int64_t half = width / 2, at = static_cast<std::int64_t>(index), place = at / half, i = at % half;
    const double angle =
        static_cast<double>(place) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    angles.cosines[index] = static_cast<float>(std::cos(angle));
    angles.sines[index] = static_cast<float>(std::sin(angle));
  }
};

/// Copies and rotates one head at position t; direction 1 rotates forwards, -1 backwards.
struct Turn {
  Angles angles;
  std::int64_t width;
  float direction;
  template <class Lanes, class T>
  DISTDL_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t t, const T* from, T* to) const {
    const std::int64_t half = width / 2;
    const float* cosines = angles.cosines + t * half;
    const float* sines = angles.sines + t * half;
    lanes.each(half, [&](std::int64_t i) {
      const float sine = direction * sines[i], a = from[i], b = from[i + half];
      to[i] = a * cosines[i] - b * sine;
      to[i + half] = b * cosines[i] + a * sine;
    });
  }
};

/// Rotates queries and keys and copies values, in the arrangement of x and possibly in place. A row is a head at a
/// position of a sample.
template <class T>
struct TurnHeads {
  AttentionExtents of;
  const T* from;
  T* to;
  Angles angles;
  float direction;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t head = row % of.x_heads(), t = row / of.x_heads() % of.places;
    if (head < of.heads + of.kv_heads)
      Turn{angles, of.width, direction}(lanes, t, from + row * of.width, to + row * of.width);
    else if (from != to)
      lanes.each(of.width, [&](std::int64_t d) { to[row * of.width + d] = from[row * of.width + d]; });
  }
};

/// The sum of y * dy over a head at a position, (N, heads, T), which the gradient of softmax subtracts. A row is such a
/// head in the order of y.
template <class T>
struct MeanSlopes {
  AttentionExtents of;
  const T* y;
  const T* dy;
  float* means;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t head = row % of.heads, t = row / of.heads % of.places, n = row / of.heads / of.places;
    const float sum = sum_over(lanes, of.width, [&](std::int64_t d) -> float {
      return static_cast<float>(y[row * of.width + d]) * dy[row * of.width + d];
    });
    lanes.once([&] { means[(n * of.heads + head) * of.places + t] = sum; });
  }
};

/// Splits x into its heads and rotates queries and keys. A row is a head at a position of a sample.
struct TakeHeads {
  AttentionExtents of;
  const float* x;
  SplitHeads heads;
  Angles angles;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const AttentionExtents::Head head = of.head_at(row);
    float* const to = heads.at(of, head);
    const float* const from = x + row * of.width;
    if (angles.cosines != nullptr && head.number < of.heads + of.kv_heads)
      Turn{angles, of.width, 1}(lanes, head.place, from, to);
    else
      lanes.each(of.width, [&](std::int64_t d) { to[d] = from[d]; });
  }
};

/// The gradient of TakeHeads.
struct ReturnHeads {
  AttentionExtents of;
  SplitHeads heads;
  float* dx;
  Angles angles;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const AttentionExtents::Head head = of.head_at(row);
    const float* const from = heads.at(of, head);
    float* const to = dx + row * of.width;
    if (angles.cosines != nullptr && head.number < of.heads + of.kv_heads)
      Turn{angles, of.width, -1}(lanes, head.place, from, to);
    else
      lanes.each(of.width, [&](std::int64_t d) { to[d] = from[d]; });
  }
};

/// Converts between (N, T, heads, D) and (N, heads, T, D). A row is a head at a position, in the first order.
struct JoinHeads {
  AttentionExtents of;
  const float* split;
  float* joined;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t head = row % of.heads, t = row / of.heads % of.asked, n = row / of.heads / of.asked;
    const float* from = split + ((n * of.heads + head) * of.asked + t) * of.width;
    lanes.each(of.width, [&](std::int64_t d) { joined[row * of.width + d] = from[d]; });
  }
};
struct SplitOutput {
  AttentionExtents of;
  const float* joined;
  float* split;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t head = row % of.heads, t = row / of.heads % of.asked, n = row / of.heads / of.asked;
    float* to = split + ((n * of.heads + head) * of.asked + t) * of.width;
    lanes.each(of.width, [&](std::int64_t d) { to[d] = joined[row * of.width + d]; });
  }
};

/// Converts scores to probabilities in place; 0 for positions that the query does not see. A row is a row of the scores
/// of any group.
struct SoftmaxOfScores {
  AttentionExtents of;
  float* scores;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    float* const p = scores + row * of.places;
    const std::int64_t seen = of.seen(row);
    const Exponentials found = lanes.reduce(
        seen, Exponentials::none(), [&](Exponentials& state, std::int64_t j) { state.add(p[j]); },
        [](const Exponentials& a, const Exponentials& b) { return Exponentials::merged(a, b); });
    const float share = 1 / found.sum;
    lanes.each(of.places, [&](std::int64_t j) { p[j] = j < seen ? std::exp(p[j] - found.largest) * share : 0.0f; });
  }
};

/// Converts the gradient of the probabilities to that of the scores, in place.
struct SoftmaxOfScoresGradient {
  AttentionExtents of;
  const float* probabilities;
  float* gradient;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const float* const p = probabilities + row * of.places;
    float* const d = gradient + row * of.places;
    const std::int64_t seen = of.seen(row);
    const float mean = sum_over(lanes, seen, [&](std::int64_t j) { return p[j] * d[j]; });
    lanes.each(of.places, [&](std::int64_t j) { d[j] = j < seen ? p[j] * (d[j] - mean) : 0.0f; });
  }
};

}  // namespace distdl::kernels::cuda
