// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/cuda/attention/attention.hpp>
#include <distdl/kernels/cuda/device/device.hpp>

namespace distdl::kernels::cuda {

/// By how much a layer turns queries and keys: Attention::rotary_base.
class AngleTables {
 public:
  AngleTables(const Device& device, const AttentionExtents& of, double rotary_base);
  /// Null where nothing is turned.
  const Angles& get() const { return angles_; }

 private:
  tensor::Buffer tables_;
  Angles angles_{nullptr, nullptr};  // in tables_
};

}  // namespace distdl::kernels::cuda
