// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <distdl/tensor/element.hpp>
#include <distdl/tensor/element_maths.hpp>

namespace distdl::tensor {

/// A number of 16 bits that is computed as a float. Widening is exact; narrowing rounds to nearest, ties to even.
/// constexpr, for processors and GPUs.
template <class Maths>
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  constexpr Half(float value) : bits(Maths::narrow(value)) {}      // NOLINT(google-explicit-constructor)
  constexpr operator float() const { return Maths::widen(bits); }  // NOLINT(google-explicit-constructor)
  constexpr Half& operator+=(float value) { return *this = *this + value; }
};
struct HalfMaths {};
using Bfloat16 = Half<ElementMaths<HalfMaths>::Bfloat16>;
using Float16 = Half<ElementMaths<HalfMaths>::Float16>;

/// The DataType of float, Bfloat16 or Float16.
template <class T>
constexpr DataType data_type_of() {
  if (std::is_same_v<T, Bfloat16>) return DataType::bfloat16;
  return std::is_same_v<T, Float16> ? DataType::float16 : DataType::float32;
}

/// Calls act(T{}), where T is the C++ type of a floating type of activations.
template <class Act>
auto with_type(DataType type, Act&& act) {
  if (type == DataType::bfloat16) return act(Bfloat16{});
  if (type == DataType::float16) return act(Float16{});
  return act(0.0f);
}

}  // namespace distdl::tensor
