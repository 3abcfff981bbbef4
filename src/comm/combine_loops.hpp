// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <distdl/comm/combine_kernels.hpp>
#include <distdl/comm/element.hpp>

namespace distdl::comm {

/// Plain loops that the compiler turns into vector instructions. Compiled several times, each with flags for one kind
/// of processor and its own `Processor`: thus no function here has the same name in two of them, and none may call an
/// inline function from elsewhere, of which the linker would keep one copy for all processors.
template <class Processor>
struct CombineLoops {
  /// In memory: of any alignment, and of any type to others.
  template <class Type>
  struct [[gnu::packed, gnu::may_alias]] Stored {
    typename Type::Value value;
  };

  /// Integers in the order of the floating values: -0 before +0. T: the signed integer of the same size.
  template <class T, class Value, T infinity>
  struct FloatingOrder {
    static constexpr T kSize = static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)));  ///< all bits but the sign
    static T bits(Value value) { return __builtin_bit_cast(T, value); }
    static T key(Value value) { return static_cast<T>(bits(value) ^ ((bits(value) >> (8 * sizeof(T) - 1)) & kSize)); }
    static bool is_nan(Value value) { return (bits(value) & kSize) > infinity; }
  };
  template <class T>
  struct IntegerOrder {
    static T key(T value) { return value; }
    static bool is_nan(T) { return false; }
  };

  template <class T, class Wider, class OrderOfT>
  struct Plain {
    using Value = T;
    using Order = OrderOfT;
    static T add(T a, T b) { return a + b; }
    static T scale(T value, double by) { return static_cast<T>(static_cast<Wider>(value) * static_cast<Wider>(by)); }
  };

  using FloatOrder = FloatingOrder<std::int32_t, float, 0x7F800000>;
  using Float = Plain<float, double, FloatOrder>;
  using ShortFloat = Plain<float, float, FloatOrder>;
  using Double = Plain<double, double, FloatingOrder<std::int64_t, double, 0x7FF0000000000000>>;

  template <class T, class Unsigned>
  struct Integer {
    using Value = T;
    using Order = IntegerOrder<T>;
    static T add(T a, T b) { return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)); }
  };

  struct Byte {
    using Value = std::uint8_t;
  };

  struct Bfloat16 {
    using Value = std::uint16_t;
    using Order = FloatingOrder<std::int16_t, Value, 0x7F80>;
    static float widen(std::uint16_t stored) { return __builtin_bit_cast(float, std::uint32_t{stored} << 16); }
    static std::uint16_t narrow(float value) {
      const auto bits = __builtin_bit_cast(std::uint32_t, value);
      const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
      const std::uint32_t quiet_nan = (bits >> 16) | 0x40;
      return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded);
    }
    static std::uint16_t add(std::uint16_t a, std::uint16_t b) { return narrow(widen(a) + widen(b)); }
    static std::uint16_t scale(std::uint16_t value, double by) { return narrow(widen(value) * static_cast<float>(by)); }
  };

  // After F. Giesen, "float->half variants": without branches, and without assists for small numbers.
  struct Float16 {
    using Value = std::uint16_t;
    using Order = FloatingOrder<std::int16_t, Value, 0x7C00>;
    static float widen(std::uint16_t stored) {
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
    static std::uint16_t narrow(float value) {
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
    static std::uint16_t add(std::uint16_t a, std::uint16_t b) { return narrow(widen(a) + widen(b)); }
    static std::uint16_t scale(std::uint16_t value, double by) { return narrow(widen(value) * static_cast<float>(by)); }
  };

  template <class Type>
  struct Sum {
    static typename Type::Value of(typename Type::Value a, typename Type::Value b, double) { return Type::add(a, b); }
  };
  template <class Type>
  struct ScaledSum {
    static typename Type::Value of(typename Type::Value a, typename Type::Value b, double scale) {
      return Type::scale(Type::add(a, b), scale);
    }
  };
  template <bool scaled, class Type>
  using SumOrScaled = std::conditional_t<scaled, ScaledSum<Type>, Sum<Type>>;
  template <class Type>
  struct Maximum {
    static typename Type::Value of(typename Type::Value a, typename Type::Value b, double) {
      using Order = typename Type::Order;
      return Order::is_nan(a) | (!Order::is_nan(b) & (Order::key(a) > Order::key(b))) ? a : b;
    }
  };
  template <class Type>
  struct Minimum {
    static typename Type::Value of(typename Type::Value a, typename Type::Value b, double) {
      using Order = typename Type::Order;
      return Order::is_nan(a) | (!Order::is_nan(b) & (Order::key(a) < Order::key(b))) ? a : b;
    }
  };

  // ivdep: a target is a source or far from it, so no iteration depends on an earlier one.
  template <class Type, class Operation>
  static void merge(void* first, void* second, const void* left, const void* right, std::size_t count, double scale) {
    using Stored = CombineLoops::Stored<Type>;
    const auto* const a = static_cast<const Stored*>(left);
    const auto* const b = static_cast<const Stored*>(right);
    auto* const t = static_cast<Stored*>(first);
    auto* const u = static_cast<Stored*>(second);
    if (!u) {
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) t[i].value = Operation::of(a[i].value, b[i].value, scale);
      return;
    }
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) {
      const typename Type::Value value = Operation::of(a[i].value, b[i].value, scale);
      t[i].value = value;
      u[i].value = value;
    }
  }

  static void copy(void* first, void* second, const void* source, std::size_t bytes) {
    using Stored = CombineLoops::Stored<Byte>;
    const auto* const a = static_cast<const Stored*>(source);
    auto* const t = static_cast<Stored*>(first);
    auto* const u = static_cast<Stored*>(second);
#pragma GCC ivdep
    for (std::size_t i = 0; i < bytes; ++i) {
      const std::uint8_t value = a[i].value;
      t[i].value = value;
      u[i].value = value;
    }
  }

  template <class Type>
  static void scale(void* first, void* second, const void* source, std::size_t count, double by) {
    using Stored = CombineLoops::Stored<Type>;
    const auto* const a = static_cast<const Stored*>(source);
    auto* const t = static_cast<Stored*>(first);
    auto* const u = static_cast<Stored*>(second ? second : first);
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) {
      const typename Type::Value value = Type::scale(a[i].value, by);
      t[i].value = value;
      u[i].value = value;
    }
  }

  // float32: the product with a float is exact in float64, so both give the same bits; one is faster.
  static void merge_scaled(void* first, void* second, const void* left, const void* right, std::size_t count,
                           double by) {
    const bool is_float = static_cast<double>(static_cast<float>(by)) == by;
    (is_float ? &merge<ShortFloat, ScaledSum<ShortFloat>> : &merge<Float, ScaledSum<Float>>)(first, second, left, right,
                                                                                             count, by);
  }

  template <class Type>
  static constexpr void add_type(CombineKernels& kernels, DataType type) {
    MergeKernel* const merges = kernels.merge[static_cast<int>(type)];
    merges[static_cast<int>(Reduction::sum)] = &merge<Type, Sum<Type>>;
    merges[static_cast<int>(Reduction::maximum)] = &merge<Type, Maximum<Type>>;
    merges[static_cast<int>(Reduction::minimum)] = &merge<Type, Minimum<Type>>;
  }
  template <class Type>
  static constexpr void add_floating(CombineKernels& kernels, DataType type) {
    add_type<Type>(kernels, type);
    kernels.scaled_sum[static_cast<int>(type)] = &merge<Type, ScaledSum<Type>>;
    kernels.scale[static_cast<int>(type)] = &scale<Type>;
  }

  static constexpr CombineKernels kernels() {
    CombineKernels all;
    all.copy = &copy;
    add_floating<Float>(all, DataType::float32);
    all.scaled_sum[static_cast<int>(DataType::float32)] = &merge_scaled;
    add_floating<Double>(all, DataType::float64);
    add_floating<Float16>(all, DataType::float16);
    add_floating<Bfloat16>(all, DataType::bfloat16);
    add_type<Integer<std::int32_t, std::uint32_t>>(all, DataType::int32);
    add_type<Integer<std::int64_t, std::uint64_t>>(all, DataType::int64);
    return all;
  }
};

}  // namespace distdl::comm
