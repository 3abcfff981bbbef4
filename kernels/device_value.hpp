// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <type_traits>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels {

/// A small value in the backend's memory that recorded work reads.
template <class T>
class DeviceValue {
 public:
  explicit DeviceValue(Backend& backend) : backend_(backend), memory_(backend.allocate(sizeof(T))) {}
  DeviceValue(Backend& backend, const T& value) : DeviceValue(backend) { set(value); }

  /// Sets the value for the following work.
  void set(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (value == value_) return;
    backend_.copy_from_host(memory_.data(), &value, sizeof value);
    value_ = value;
  }
  const T* get() const { return static_cast<const T*>(memory_.data()); }

 private:
  Backend& backend_;
  tensor::Buffer memory_;
  std::optional<T> value_;
};

}  // namespace distdl::kernels
