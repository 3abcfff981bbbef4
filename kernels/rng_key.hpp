// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::kernels {

/// The key from which dropout draws. It is equal for the same microbatch of a run on any rank.
struct RngKey {
  std::uint64_t seed = 0;
  std::uint64_t microbatch = 0;  ///< number in the run: step * microbatches per step + index in the step; below 2^48
};

}  // namespace distdl::kernels
