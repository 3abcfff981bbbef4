// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/kernels/cuda/device/staging_ring.hpp>
#include <distdl/kernels/cuda/optimizers/ranges.hpp>

namespace distdl::kernels::cuda {

/// Tables of ranges on the GPU. Each is copied once and kept, because an optimizer has few and uses them in each step.
class RangeTables {
 public:
  /// Also reserves the scratch memory for the functions of optimizers.hpp.
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
