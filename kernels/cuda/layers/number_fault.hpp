// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::kernels::cuda {

/// A number in a layer's or a loss's input that is none of 0 .. limit - 1. Written by a kernel, read by the host after
/// the next wait: a kernel cannot throw.
struct NumberFault {
  enum class Of : std::int32_t { nothing, label, table_row };
  Of of = Of::nothing;
  std::int32_t number = 0;
  std::int32_t limit = 0;
  std::int64_t place = 0;  ///< in the microbatch
};

}  // namespace distdl::kernels::cuda
