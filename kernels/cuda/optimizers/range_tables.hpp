// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/kernels/cuda/device/staging_ring.hpp>
#include <distdl/kernels/cuda/optimizers/ranges.hpp>

namespace distdl::kernels::cuda {

/// Lists of stretches on the GPU. Each is sent once and kept: an optimizer has few, and asks for them in each step.
class StretchTables {
 public:
  /// Reserves the scratch that the calls of optimizers.hpp take.
  StretchTable of(Device& device, StagingRing& staging, Stretches stretches);

 private:
  struct Kept {
    std::vector<Stretch> stretches;
    tensor::Buffer memory;
    StretchTable table;
  };
  std::vector<Kept> kept_;
};

}  // namespace distdl::kernels::cuda
