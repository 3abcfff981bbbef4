// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <distdl/base/philox.hpp>
#include <distdl/kernels/rng_key.hpp>

/// Element-wise arithmetic with one definition for all backends. The functions are constexpr, so that nvcc accepts them
/// in device code with --expt-relaxed-constexpr. Compile without contraction (-ffp-contract=off, -fmad=false): then all
/// backends produce the same bits.
namespace distdl::kernels::elementwise {

/// max(x, 0). A NaN stays NaN, so that a diverged run is noticed.
struct Relu {
  constexpr float operator()(float x) const { return 0.0f > x ? 0.0f : x; }
};

/// dx of y = relu(x), from y alone.
struct ReluGradient {
  constexpr float operator()(float y, float dy) const { return y > 0.0f ? dy : 0.0f; }
};

// These are templates, because C++20's exp and erf are not constexpr.

/// GELU computed with erf.
struct Gelu {
  template <class T>
  constexpr T operator()(T x) const {
    return x * distribution(x);
  }
  /// dx of y = gelu(x), from x.
  template <class T>
  constexpr T gradient(T x, T dy) const {
    return dy * (distribution(x) + x * std::exp(x * x / T(-2)) * T(0.3989422804014327));  // 1 / sqrt(2 pi)
  }
  template <class T>
  static constexpr T distribution(T x) {
    return (T(1) + std::erf(x * T(0.7071067811865476))) / T(2);
  }
};

struct GeluTanh {
  template <class T>
  constexpr T operator()(T x) const {
    return x / T(2) * (T(1) + std::tanh(argument(x)));
  }
  template <class T>
  constexpr T gradient(T x, T dy) const {
    const T t = std::tanh(argument(x));
    return dy * ((T(1) + t) / T(2) + x / T(2) * (T(1) - t * t) * T(kScale) * (T(1) + T(3 * kCubic) * x * x));
  }
  template <class T>
  static constexpr T argument(T x) {
    return T(kScale) * (x + T(kCubic) * x * x * x);
  }
  static constexpr double kScale = 0.7978845608028654;  ///< sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
};

struct Silu {
  template <class T>
  constexpr T operator()(T x) const {
    return x / (T(1) + std::exp(-x));
  }
  template <class T>
  constexpr T gradient(T x, T dy) const {
    const T s = T(1) / (T(1) + std::exp(-x));
    return dy * s * (T(1) + x * (T(1) - s));
  }
};

/// The values of the dense microbatch that dropout keeps.
struct Stays {
  RngKey rng_key;
  std::uint32_t stream = 0;
  float probability = 0;
  /// Whether the values 4 * number to 4 * number + 3 are kept.
  constexpr std::array<bool, 4> four(std::uint64_t number) const {
    const auto block = Philox::block(rng_key.seed, rng_key.microbatch << 16 | stream, number);
    std::array<bool, 4> stay{};
    for (std::size_t i = 0; i < 4; ++i) stay[i] = Philox::uniform(block[i]) >= probability;
    return stay;
  }
};

struct Add {
  constexpr float operator()(float a, float b) const { return a + b; }
};

struct Square {
  constexpr double operator()(float x) const { return double{x} * double{x}; }
};

}  // namespace distdl::kernels::elementwise
