// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <distdl/comm/element.hpp>

namespace distdl::comm {

template <class T>
constexpr DataType kDataTypeOf = [] {
  static_assert(sizeof(T) == 0,
                "this is not a type of comm::DataType: give it, as in Vector(pointer, count, DataType::float16)");
}();
template <>
inline constexpr DataType kDataTypeOf<std::byte> = DataType::byte;
template <>
inline constexpr DataType kDataTypeOf<float> = DataType::float32;
template <>
inline constexpr DataType kDataTypeOf<double> = DataType::float64;
template <>
inline constexpr DataType kDataTypeOf<std::int32_t> = DataType::int32;
template <>
inline constexpr DataType kDataTypeOf<std::int64_t> = DataType::int64;

// Implicit conversions are intended, so that callers can pass containers of numbers.
// NOLINTBEGIN(google-explicit-constructor)

/// `count` elements of one type in any memory.
class ConstVector {
 public:
  ConstVector() = default;
  ConstVector(const void* data, std::size_t count, DataType type) : data_(data), count_(count), type_(type) {}
  template <class T>
  ConstVector(std::span<const T> values) : ConstVector(values.data(), values.size(), kDataTypeOf<T>) {}
  template <class T>
  ConstVector(const std::vector<T>& values) : ConstVector(values.data(), values.size(), kDataTypeOf<T>) {}
  const void* data() const { return data_; }
  std::size_t count() const { return count_; }
  DataType type() const { return type_; }

 private:
  const void* data_ = nullptr;
  std::size_t count_ = 0;
  DataType type_ = DataType::byte;
};

/// `count` elements that may be written.
class Vector {
 public:
  Vector() = default;
  Vector(void* data, std::size_t count, DataType type) : data_(data), count_(count), type_(type) {}
  template <class T>
  Vector(std::span<T> values) : Vector(values.data(), values.size(), kDataTypeOf<T>) {}
  template <class T>
  Vector(std::vector<T>& values) : Vector(values.data(), values.size(), kDataTypeOf<T>) {}
  operator ConstVector() const { return {data_, count_, type_}; }
  void* data() const { return data_; }
  std::size_t count() const { return count_; }
  DataType type() const { return type_; }

 private:
  void* data_ = nullptr;
  std::size_t count_ = 0;
  DataType type_ = DataType::byte;
};

// NOLINTEND(google-explicit-constructor)

}  // namespace distdl::comm
