// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace distdl::tensor {

/// The arithmetic of reductions on single elements. There is one definition for processors and GPUs. It gives the same
/// bits on all of them (except those of a NaN) if it is compiled without contraction (-ffp-contract=off, -fmad=false).
/// The functions are constexpr, so that nvcc accepts them in device code with --expt-relaxed-constexpr.
///
/// Each source file that is compiled with its own flags uses its own `Processor` type, and so gets its own functions.
/// If several files shared an inline function, the linker would keep one copy of it, which some processors might not be
/// able to run. Therefore no function here may call an inline function from another file.
template <class Processor>
struct ElementMaths {
  /// Integers in the order of the floating point values, with -0 before +0. T is the signed integer of the same size.
  template <class T, class Value, T infinity>
  struct FloatingOrder {
    static constexpr T kSize = static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)));  ///< all bits but the sign
    static constexpr T bits(Value value) { return __builtin_bit_cast(T, value); }
    static constexpr T key(Value value) {
      return static_cast<T>(bits(value) ^ ((bits(value) >> (8 * sizeof(T) - 1)) & kSize));
    }
    static constexpr bool is_nan(Value value) { return (bits(value) & kSize) > infinity; }
  };
  template <class T>
  struct IntegerOrder {
    static constexpr T key(T value) { return value; }
    static constexpr bool is_nan(T) { return false; }
  };

  template <class T, class Wider, class OrderOfT>
  struct Plain {
    using Value = T;
    using Order = OrderOfT;
    static constexpr T add(T a, T b) { return a + b; }
    static constexpr T scale(T value, double by) {
      return static_cast<T>(static_cast<Wider>(value) * static_cast<Wider>(by));
    }
  };

  using FloatOrder = FloatingOrder<std::int32_t, float, 0x7F800000>;
  using Float = Plain<float, double, FloatOrder>;
  using ShortFloat = Plain<float, float, FloatOrder>;
  using Double = Plain<double, double, FloatingOrder<std::int64_t, double, 0x7FF0000000000000>>;

  template <class T, class Unsigned>
  struct Integer {
    using Value = T;
    using Order = IntegerOrder<T>;
    static constexpr T add(T a, T b) { return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)); }
  };

  struct Byte {
    using Value = std::uint8_t;
  };

  struct Bfloat16 {
    using Value = std::uint16_t;
    using Order = FloatingOrder<std::int16_t, Value, 0x7F80>;
    static constexpr float widen(std::uint16_t stored) {
      return __builtin_bit_cast(float, std::uint32_t{stored} << 16);
    }
    static constexpr std::uint16_t narrow(float value) {
      const auto bits = __builtin_bit_cast(std::uint32_t, value);
      const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
      const std::uint32_t quiet_nan = (bits >> 16) | 0x40;
      return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded);
    }
    static constexpr std::uint16_t add(std::uint16_t a, std::uint16_t b) { return narrow(widen(a) + widen(b)); }
    static constexpr std::uint16_t scale(std::uint16_t value, double by) {
      return narrow(widen(value) * static_cast<float>(by));
    }
  };

  // After F. Giesen, "float->half variants": without branches, and without microcode assists for small numbers.
  struct Float16 {
    using Value = std::uint16_t;
    using Order = FloatingOrder<std::int16_t, Value, 0x7C00>;
    static constexpr float widen(std::uint16_t stored) {
      constexpr std::uint32_t kExponent = 0x7C00U << 13;
      const std::uint32_t shifted = (stored & 0x7FFFU) << 13;
      const std::uint32_t exponent = shifted & kExponent;
      const std::uint32_t normal = shifted + ((127U - 15) << 23);
      const std::uint32_t infinite = normal + ((128U - 16) << 23);
      const float subnormal = __builtin_bit_cast(float, normal + (1U << 23)) - 0x1p-14F;
      const std::uint32_t finite = exponent == 0 ? __builtin_bit_cast(std::uint32_t, subnormal) : normal;
      const std::uint32_t sign = (stored & 0x8000U) << 16;
      return __builtin_bit_cast(float, sign | (exponent == kExponent ? infinite : finite));
    }
    static constexpr std::uint16_t narrow(float value) {
      const auto bits = __builtin_bit_cast(std::uint32_t, value);
      const std::uint32_t size = bits & 0x7FFFFFFF;
      const std::uint32_t normal = (size - ((127U - 15) << 23) + 0xFFF + ((size >> 13) & 1)) >> 13;
      const float moved = __builtin_bit_cast(float, size) + 0.5F;  // its last bit is that of a subnormal half
      const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, moved) - 0x3F000000;
      const std::uint32_t nan = 0x7E00 | ((size >> 13) & 0x3FF);
      const std::uint32_t special = size > 0x7F800000 ? nan : 0x7C00;
      const std::uint32_t finite = size < (113U << 23) ? subnormal : normal;
      return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | (size >= (143U << 23) ? special : finite));
    }
    static constexpr std::uint16_t add(std::uint16_t a, std::uint16_t b) { return narrow(widen(a) + widen(b)); }
    static constexpr std::uint16_t scale(std::uint16_t value, double by) {
      return narrow(widen(value) * static_cast<float>(by));
    }
  };

  template <class Type>
  struct Sum {
    static constexpr typename Type::Value of(typename Type::Value a, typename Type::Value b, double) {
      return Type::add(a, b);
    }
  };
  template <class Type>
  struct ScaledSum {
    static constexpr typename Type::Value of(typename Type::Value a, typename Type::Value b, double scale) {
      return Type::scale(Type::add(a, b), scale);
    }
  };
  template <class Type>
  struct Maximum {
    static constexpr typename Type::Value of(typename Type::Value a, typename Type::Value b, double) {
      using Order = typename Type::Order;
      return Order::is_nan(a) | (!Order::is_nan(b) & (Order::key(a) > Order::key(b))) ? a : b;
    }
  };
  template <class Type>
  struct Minimum {
    static constexpr typename Type::Value of(typename Type::Value a, typename Type::Value b, double) {
      using Order = typename Type::Order;
      return Order::is_nan(a) | (!Order::is_nan(b) & (Order::key(a) < Order::key(b))) ? a : b;
    }
  };
};

}  // namespace distdl::tensor
