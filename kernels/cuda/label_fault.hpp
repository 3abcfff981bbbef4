// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::kernels::cuda {

/// Written by the loss kernel, read by the host after the next wait: a kernel cannot throw.
struct LabelFault {
  std::int32_t is_set = 0;
  std::int32_t sample = 0;
  std::int32_t label = 0;
  std::int32_t classes = 0;
};

}  // namespace distdl::kernels::cuda
