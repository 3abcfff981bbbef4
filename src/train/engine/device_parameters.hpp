// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <distdl/kernels/backend.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::train {

/// Parameters of a state in host memory, copied to where the model's backend can use them.
class DeviceParameters {
 public:
  /// The reference must outlive this object.
  explicit DeviceParameters(kernels::Backend& backend) : backend_(backend) {}
  /// Once. `bytes`: of the parameters.
  void allocate(std::size_t bytes) {
    if (!backend_.memory_is_host()) copy_ = backend_.allocate(bytes);
  }
  /// Returns `arena`, or a copy that is valid until the next call.
  const float* operator()(const float* arena) {
    if (copy_.bytes() == 0) return arena;
    backend_.copy_from_host(copy_.data(), arena, copy_.bytes());
    return copy_.as<float>().data();
  }

 private:
  kernels::Backend& backend_;
  tensor::Buffer copy_;  ///< none: the backend's memory is the host's
};

}  // namespace distdl::train
