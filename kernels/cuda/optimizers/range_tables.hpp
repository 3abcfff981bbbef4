// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/kernels/cuda/device/staging_ring.hpp>
#include <distdl/kernels/cuda/optimizers/ranges.hpp>

namespace distdl::kernels::cuda {

/// Lists of ranges on the GPU. Each is sent once and kept: an optimizer has few, and asks for them in each step.
class RangeTables {
 public:
  /// Reserves the scratch that the calls of optimizers.hpp take.
  RangeTable of(Device& device, StagingRing& staging, ArenaRanges ranges);

 private:
  struct Kept {
    std::vector<ArenaRange> ranges;
    tensor::Buffer memory;
    RangeTable table;
  };
  std::vector<Kept> kept_;
};

}  // namespace distdl::kernels::cuda
