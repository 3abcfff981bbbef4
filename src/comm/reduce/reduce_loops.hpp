// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <distdl/comm/element.hpp>
#include <distdl/comm/reduce/reduce_kernels.hpp>
#include <distdl/tensor/element_maths.hpp>

namespace distdl::comm {

/// Plain loops that the compiler vectorizes. They are compiled several times, each time with flags for one kind of
/// processor and with its own `Processor`, so that all functions have different names. None of them may call an inline
/// function from another file: the linker would keep one copy of it for all processors.
template <class Processor>
struct ReduceLoops {
  /// Elements in memory of any alignment and of any type.
  template <class Type>
  struct [[gnu::packed, gnu::may_alias]] Stored {
    typename Type::Value value;
  };

  using Maths = tensor::ElementMaths<Processor>;
  using Float = typename Maths::Float;
  using ShortFloat = typename Maths::ShortFloat;
  using Double = typename Maths::Double;
  using Float16 = typename Maths::Float16;
  using Bfloat16 = typename Maths::Bfloat16;
  using Byte = typename Maths::Byte;
  template <class T, class Unsigned>
  using Integer = typename Maths::template Integer<T, Unsigned>;
  template <class Type>
  using Sum = typename Maths::template Sum<Type>;
  template <class Type>
  using ScaledSum = typename Maths::template ScaledSum<Type>;
  template <bool scaled, class Type>
  using SumOrScaled = std::conditional_t<scaled, ScaledSum<Type>, Sum<Type>>;
  template <class Type>
  using Maximum = typename Maths::template Maximum<Type>;
  template <class Type>
  using Minimum = typename Maths::template Minimum<Type>;

  // ivdep: a target is a source or far from it, so no iteration depends on an earlier one.
  template <class Type, class Operation>
  static void reduce(void* first, void* second, const void* left, const void* right, std::size_t count, double scale) {
    using Stored = ReduceLoops::Stored<Type>;
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
    using Stored = ReduceLoops::Stored<Byte>;
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
    using Stored = ReduceLoops::Stored<Type>;
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
  static void reduce_scaled(void* first, void* second, const void* left, const void* right, std::size_t count,
                            double by) {
    const bool is_float = static_cast<double>(static_cast<float>(by)) == by;
    (is_float ? &reduce<ShortFloat, ScaledSum<ShortFloat>> : &reduce<Float, ScaledSum<Float>>)(first, second, left,
                                                                                               right, count, by);
  }

  template <class Type>
  static constexpr void add_type(ReduceKernels& kernels, DataType type) {
    ReduceKernel* const of_type = kernels.reduce[static_cast<int>(type)];
    of_type[static_cast<int>(Reduction::sum)] = &reduce<Type, Sum<Type>>;
    of_type[static_cast<int>(Reduction::maximum)] = &reduce<Type, Maximum<Type>>;
    of_type[static_cast<int>(Reduction::minimum)] = &reduce<Type, Minimum<Type>>;
  }
  template <class Type>
  static constexpr void add_floating(ReduceKernels& kernels, DataType type) {
    add_type<Type>(kernels, type);
    kernels.scaled_sum[static_cast<int>(type)] = &reduce<Type, ScaledSum<Type>>;
    kernels.scale[static_cast<int>(type)] = &scale<Type>;
  }

  static constexpr ReduceKernels kernels() {
    ReduceKernels all;
    all.copy = &copy;
    add_floating<Float>(all, DataType::float32);
    all.scaled_sum[static_cast<int>(DataType::float32)] = &reduce_scaled;
    add_floating<Double>(all, DataType::float64);
    add_floating<Float16>(all, DataType::float16);
    add_floating<Bfloat16>(all, DataType::bfloat16);
    add_type<Integer<std::int32_t, std::uint32_t>>(all, DataType::int32);
    add_type<Integer<std::int64_t, std::uint64_t>>(all, DataType::int64);
    return all;
  }
};

}  // namespace distdl::comm
