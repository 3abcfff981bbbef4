// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/cuda/attention/attention.hpp>
#include <distdl/kernels/cuda/device/device.hpp>

namespace distdl::kernels::cuda {

/// The rotation angles of a layer's queries and keys, see Attention::rotary_base.
class AngleTables {
 public:
  AngleTables(const Device& device, const AttentionExtents& of, double rotary_base);
  /// Null pointers if the layer does not rotate.
  const Angles& get() const { return angles_; }

 private:
  tensor::Buffer tables_;
  Angles angles_{nullptr, nullptr};  // in tables_
};

}  // namespace distdl::kernels::cuda
