// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/compression/loops/loops.hpp>
#include <distdl/tensor/element_maths.hpp>

namespace distdl::compression {

/// Plain loops that the compiler vectorizes, compiled once for each kind of processor with a `Processor` type of its
/// own. None of them may call an inline function of another file, see comm/reduce/reduce_loops.hpp.
template <class Processor>
struct CodecLoops {
  using Maths = tensor::ElementMaths<Processor>;
  static constexpr std::size_t kLanes = 16, kWord = 32;
  static constexpr std::uint32_t kSize = 0x7FFFFFFF, kInfinity = 0x7F800000;

  static constexpr std::uint32_t size_of(float value) { return __builtin_bit_cast(std::uint32_t, value) & kSize; }

  template <class Type>
  static void narrow(float* __restrict values, std::uint16_t* __restrict code, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const float value = values[i];
      code[i] = Type::narrow(value);
      values[i] = value - Type::widen(code[i]);
    }
  }
  template <class Type>
  static void widen(const std::uint16_t* __restrict code, float* __restrict values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values[i] = Type::widen(code[i]);
  }

  /// Finite values stay finite. For bfloat16 these are the few above its largest, which would be rounded to infinity.
  template <class Type, std::uint32_t largest>
  struct Saturated {
    static constexpr std::uint16_t narrow(float value) {
      const auto bits = __builtin_bit_cast(std::uint32_t, value);
      const std::uint32_t size = bits & kSize;
      const std::uint32_t kept = ((size > largest) & (size < kInfinity)) != 0 ? largest : size;
      return Type::narrow(__builtin_bit_cast(float, (bits & ~kSize) | kept));
    }
    static constexpr float widen(std::uint16_t code) { return Type::widen(code); }
  };
  using Bfloat16 = Saturated<typename Maths::Bfloat16, 0x7F7F0000>;
  using Float16 = Saturated<typename Maths::Float16, 0x477FE000>;

  static std::uint32_t largest(const float* values, std::size_t count) {
    std::int32_t most = 0;  // sizes have no sign bit: signed comparisons are right, and older processors have those
    for (std::size_t i = 0; i < count; ++i) {
      const auto size = static_cast<std::int32_t>(size_of(values[i]));
      most = size > most ? size : most;
    }
    return static_cast<std::uint32_t>(most);
  }

  static void to_int8(float* __restrict values, float* __restrict scales, std::int8_t* __restrict code,
                      std::size_t count) {
    constexpr float kMost = 127, kLeast = 0x1p-119F;  // below, a scale would lose bits
    constexpr float kRound = 12582912;                // 1.5 * 2^23: what is added to it is rounded to nearest
    for (; count > 0; ++scales) {
      const std::size_t length = count < kScaleBlock ? count : kScaleBlock;
      const std::uint32_t size = largest(values, length);
      const auto most = __builtin_bit_cast(float, size);
      const bool is_finite = size < kInfinity, is_zero = is_finite && most < kLeast;
      const float rounded_scale = most / kMost;
      const bool is_finite_too = rounded_scale * kMost < __builtin_inff();  // or it was rounded up
      const float least_scale = __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, rounded_scale) - 1);
      const float finite_scale = is_finite_too ? rounded_scale : least_scale;
      const float scale = is_finite ? (is_zero ? 0 : finite_scale) : __builtin_nanf("");
      const float inverse = is_finite && !is_zero ? kMost / most : 0;
      *scales = scale;
      for (std::size_t i = 0; i < length; ++i) {
        const float scaled = is_finite ? values[i] * inverse : 0;
        const float rounded = scaled + kRound;
        code[i] = static_cast<std::int8_t>(__builtin_bit_cast(std::int32_t, rounded) -
                                           __builtin_bit_cast(std::int32_t, kRound));
        values[i] -= (rounded - kRound) * scale;
      }
      values += length;
      code += length;
      count -= length;
    }
  }

  static void from_int8(const float* __restrict scales, const std::int8_t* __restrict code, float* __restrict values,
                        std::size_t count) {
    for (; count > 0; ++scales) {
      const std::size_t length = count < kScaleBlock ? count : kScaleBlock;
      const float scale = *scales;
      for (std::size_t i = 0; i < length; ++i) values[i] = static_cast<float>(code[i]) * scale;
      values += length;
      code += length;
      count -= length;
    }
  }

  using Floats [[gnu::vector_size(kLanes * sizeof(float))]] = float;
  using Integers [[gnu::vector_size(kLanes * sizeof(float))]] = std::int32_t;
  /// Compilers turn no plain loop into this one.
  static void sums_by_sign(const float* values, std::size_t count, float& below, float& others,
                           std::int32_t& positive) {
    Floats sums[2] = {};
    Integers counts = {};
    for (std::size_t at = 0; at < count; at += kLanes) {
      Floats lanes = {};  // zeros are added as values below 0
      const std::size_t length = count - at < kLanes ? count - at : kLanes;
      __builtin_memcpy(&lanes, values + at, length * sizeof(float));
      Integers is_other = lanes >= 0;
      for (std::size_t lane = length; lane < kLanes; ++lane) is_other[lane] = 0;
      const auto bits = __builtin_bit_cast(Integers, lanes);
      sums[0] += __builtin_bit_cast(Floats, bits & ~is_other);
      sums[1] += __builtin_bit_cast(Floats, bits & is_other);
      counts -= is_other;
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      below += sums[0][lane];
      others += sums[1][lane];
      positive += counts[lane];
    }
  }

  [[gnu::always_inline]] static std::uint32_t word_of(const float* values, std::size_t count) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < count; ++i) word |= (values[i] >= 0 ? std::uint32_t{1} : 0) << i;
    return word;
  }

  static void to_signs(float* __restrict values, float* __restrict means, std::uint32_t* __restrict signs,
                       std::size_t count) {
    float below = 0, others = 0;
    std::int32_t positive = 0;
    sums_by_sign(values, count, below, others, positive);
    const auto negative = static_cast<std::int32_t>(count) - positive;
    const float low = negative > 0 ? below / static_cast<float>(negative) : 0;
    const float high = positive > 0 ? others / static_cast<float>(positive) : 0;
    means[0] = low;
    means[1] = high;
    std::size_t first = 0;
    for (; first + kWord <= count; first += kWord) signs[first / kWord] = word_of(values + first, kWord);
    if (first < count) signs[first / kWord] = word_of(values + first, count - first);
    for (std::size_t i = 0; i < count; ++i) values[i] -= values[i] >= 0 ? high : low;
  }

  static void from_signs(const float* __restrict means, const std::uint32_t* __restrict signs, float* __restrict values,
                         std::size_t count) {
    const float below = means[0], others = means[1];
    for (std::size_t first = 0; first < count; first += kWord) {
      const std::size_t length = count - first < kWord ? count - first : kWord;
      const std::uint32_t word = signs[first / kWord];
      for (std::size_t i = 0; i < length; ++i) values[first + i] = (word >> i & 1) != 0 ? others : below;
    }
  }

  /// Bit by bit, from the highest.
  static std::uint32_t magnitude(const float* values, std::size_t count, std::size_t most) {
    constexpr int kHighest = 30;
    std::uint32_t found = 0;
    for (int bit = kHighest; bit >= 0; --bit) {
      const std::uint32_t candidate = found | std::uint32_t{1} << bit;
      std::int32_t above = 0;
      for (std::size_t i = 0; i < count; ++i)
        above += static_cast<std::int32_t>(size_of(values[i])) >= static_cast<std::int32_t>(candidate) ? 1 : 0;
      if (static_cast<std::size_t>(above) >= most) found = candidate;
    }
    return found;
  }

  static void add(float* __restrict sums, const float* __restrict values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
  }

  static void add_scaled(float* __restrict sums, const float* __restrict values, float by, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += by * values[i];
  }

  static float dot(const float* __restrict one, const float* __restrict other, std::size_t count) {
    float lanes[kLanes] = {};
    std::size_t at = 0;
    for (; at + kLanes <= count; at += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += one[at + lane] * other[at + lane];
    for (std::size_t lane = 0; at + lane < count; ++lane) lanes[lane] += one[at + lane] * other[at + lane];
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
  }

  static constexpr Loops all() {
    return {&narrow<Bfloat16>,
            &widen<Bfloat16>,
            &narrow<Float16>,
            &widen<Float16>,
            &to_int8,
            &from_int8,
            &to_signs,
            &from_signs,
            &magnitude,
            &add,
            &dot,
            &add_scaled};
  }
};

}  // namespace distdl::compression
