// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>

namespace distdl::kernels::cuda {

/// Converts (N, rows, columns) to (N, columns, rows), possibly to another type. With rows = columns = 1 the order is
/// unchanged.
template <class From, class To>
struct SwapAxes {
  const From* from;
  To* to;
  std::int64_t rows;
  std::int64_t columns;
  DISTDL_HOST_DEVICE To* target() const { return to; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t row = at % rows, column = at / rows % columns, matrix = at / rows / columns;
    return from[(matrix * rows + row) * columns + column];
  }
};

}  // namespace distdl::kernels::cuda
