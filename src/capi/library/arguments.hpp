// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <distdl/capi/library/error.hpp>
#include <distdl/comm/vector.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

// Checks of arguments. They throw CallError (DISTDL_INVALID) that names the argument.
namespace distdl::capi {

using tensor::ElementParts;

/// An element is exchanged as so many of those that are reduced, or bytes.
constexpr std::array kTypes{ElementParts{tensor::DataType::byte},       ElementParts{tensor::DataType::float32},
                            ElementParts{tensor::DataType::float64},    ElementParts{tensor::DataType::float16},
                            ElementParts{tensor::DataType::bfloat16},   ElementParts{tensor::DataType::int32},
                            ElementParts{tensor::DataType::int64},      ElementParts{tensor::DataType::byte},
                            ElementParts{tensor::DataType::byte, 2},    ElementParts{tensor::DataType::byte},
                            ElementParts{tensor::DataType::float32, 2}, ElementParts{tensor::DataType::float64, 2}};
/// An element is saved as one of these.
constexpr std::array kSavedTypes{tensor::DataType::byte,    tensor::DataType::float32,   tensor::DataType::float64,
                                 tensor::DataType::float16, tensor::DataType::bfloat16,  tensor::DataType::int32,
                                 tensor::DataType::int64,   tensor::DataType::int8,      tensor::DataType::int16,
                                 tensor::DataType::boolean, tensor::DataType::complex64, tensor::DataType::complex128};
static_assert(kSavedTypes.size() == kTypes.size() && kSavedTypes[DISTDL_BOOL] == tensor::DataType::boolean &&
              kSavedTypes[DISTDL_C128] == tensor::DataType::complex128);
constexpr std::array kReductions{tensor::Reduction::sum, tensor::Reduction::maximum, tensor::Reduction::minimum,
                                 tensor::Reduction::average};
static_assert(kTypes[DISTDL_F16].type == tensor::DataType::float16 && kTypes[DISTDL_I64].bytes() == 8 &&
              kTypes[DISTDL_I16].bytes() == 2 && kTypes[DISTDL_C64].bytes() == 8 && kTypes[DISTDL_C128].bytes() == 16);
static_assert(kReductions[DISTDL_MAX] == tensor::Reduction::maximum &&
              kReductions[DISTDL_AVERAGE] == tensor::Reduction::average);

inline ElementParts parts_of(int type) {
  need(type >= 0 && type < static_cast<int>(kTypes.size()), "type is {}, which is none", type);
  return kTypes.at(static_cast<std::size_t>(type));
}
constexpr bool is_small_integer(int type) {
  return type == DISTDL_U8 || type == DISTDL_I8 || type == DISTDL_I16 || type == DISTDL_BOOL;
}
constexpr bool is_complex(int type) {
  return type == DISTDL_C64 || type == DISTDL_C128;
}
/// The type of a saved array.
inline tensor::DataType data_type(int type) {
  need(type >= 0 && type < static_cast<int>(kSavedTypes.size()), "type is {}, which is none", type);
  return kSavedTypes.at(static_cast<std::size_t>(type));
}
inline int c_type_of(tensor::DataType type) {
  return static_cast<int>(std::ranges::find(kSavedTypes, type) - kSavedTypes.begin());
}
inline tensor::Reduction reduction_of(int reduction) {
  need(reduction >= 0 && reduction < static_cast<int>(kReductions.size()), "reduction is {}, which is none", reduction);
  return kReductions.at(static_cast<std::size_t>(reduction));
}

template <class T>
T& written(T* result, const char* argument) {
  need(result != nullptr, "{} is null", argument);
  return *result;
}
inline std::string text(const char* argument, const char* name) {
  need(argument != nullptr, "{} is null", name);
  return argument;
}

/// `count` elements at `data`, which may be null if there are none.
inline void check_memory(const void* data, std::size_t count, ElementParts parts, const char* argument) {
  need(data != nullptr || count == 0, "{} is null", argument);
  need(count <= std::numeric_limits<std::size_t>::max() / 2 / parts.bytes(), "{}: {} elements are too many", argument,
       count);
}
inline comm::ConstVector values_at(const void* data, std::size_t count, ElementParts parts, const char* argument) {
  check_memory(data, count, parts, argument);
  return {data, count * parts.count, parts.type};
}
inline comm::Vector result_at(void* data, std::size_t count, ElementParts parts, const char* argument) {
  check_memory(data, count, parts, argument);
  return {data, count * parts.count, parts.type};
}

/// At most HDF5's number of dimensions.
constexpr int kMostDimensions = 32;
inline tensor::Shape shape_of(int dimensions, const std::int64_t* extents, const char* argument) {
  need(dimensions >= 0 && dimensions <= kMostDimensions, "dimensions is {}, but must be 0 to {}", dimensions,
       kMostDimensions);
  need(extents != nullptr || dimensions == 0, "{} is null", argument);
  for (int i = 0; i < dimensions; ++i) need(extents[i] >= 0, "{}[{}] is {}", argument, i, extents[i]);
  return {extents, extents + dimensions};
}
/// The box at `offset` with `extent`; null: the whole.
inline tensor::Box box_in(const tensor::Shape& shape, const std::int64_t* offset, const std::int64_t* extent) {
  need((offset == nullptr) == (extent == nullptr), "offset and extent: one is null");
  if (offset == nullptr) return tensor::whole(shape);
  const int dimensions = static_cast<int>(shape.size());
  tensor::Box box{shape_of(dimensions, offset, "offset"), shape_of(dimensions, extent, "extent")};
  for (std::size_t i = 0; i < shape.size(); ++i)
    need(box.offset[i] <= shape[i] && box.extent[i] <= shape[i] - box.offset[i],
         "offset[{0}] + extent[{0}] is {1} + {2}, but the array has {3}", i, box.offset[i], box.extent[i], shape[i]);
  return box;
}

}  // namespace distdl::capi
