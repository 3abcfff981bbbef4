// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::kernels {

/// From what dropout draws: the same for the same microbatch of a run, on whatever rank.
struct RngKey {
  std::uint64_t seed = 0;
  std::uint64_t microbatch = 0;  ///< number in the run: step * microbatches a step + place in the step; below 2^48
};

}  // namespace distdl::kernels
