// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::kernels::cuda {

/// A number in the input of a layer or a loss that is outside 0 .. limit - 1. A kernel cannot throw, so it writes the
/// fault, and the host reads it after the next wait.
struct NumberFault {
  enum class Of : std::int32_t { nothing, label, table_row };
  Of of = Of::nothing;
  std::int32_t number = 0;
  std::int32_t limit = 0;
  std::int64_t place = 0;  ///< position in the microbatch
};

}  // namespace distdl::kernels::cuda
