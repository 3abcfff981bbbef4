// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/elementwise.hpp>

namespace distdl::kernels::cuda {

/// A parameter as an operand of type T: the parameter itself, or a copy of 16 bits.
template <class T>
class ShortCopy {
 public:
  /// The parameter is (N, rows, columns), and the copy is (N, columns, rows). With rows = columns = 1 the order is
  /// unchanged.
  ShortCopy(const Device& device, std::int64_t count, std::int64_t rows = 1, std::int64_t columns = 1)
      : count_(static_cast<std::size_t>(count)), rows_(rows), columns_(columns) {
    if constexpr (!std::is_same_v<T, float>) copy_ = device.allocate(sizeof(T) * count_);
  }
  /// Must be called after each change of the parameter.
  void load(const Device& device, const float* parameter) {
    parameter_ = parameter;
    if constexpr (!std::is_same_v<T, float>)
      swap_axes(device, tensor::DataType::float32, parameter, tensor::data_type_of<T>(), copy_.data(), count_, rows_,
                columns_);
  }
  const T* get() const {
    if constexpr (std::is_same_v<T, float>)
      return parameter_;
    else
      return static_cast<const T*>(copy_.data());
  }
  const float* parameter() const { return parameter_; }

 private:
  std::size_t count_;
  std::int64_t rows_, columns_;
  const float* parameter_ = nullptr;
  tensor::Buffer copy_;
};

}  // namespace distdl::kernels::cuda
