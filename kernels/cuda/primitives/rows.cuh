// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/primitives/launch.cuh>
#include <distdl/kernels/cuda/primitives/row_kernels.cuh>

// Runs the bodies of lanes.hpp on the GPU.
namespace distdl::kernels::cuda {

/// Runs body(row, lanes) for every row with one warp per row, for rows of up to some thousand values. At most 2^34
/// rows.
template <class Body>
void for_each_row(const Device& device, std::int64_t rows, const Body& body) {
  if (rows == 0) return;
  warp_rows_kernel<<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), kRowThreads, 0, device.stream()>>>(rows,
                                                                                                             body);
  check(cudaGetLastError(), "start a kernel over rows");
}

/// Runs body(row, lanes) with one block per row, for few or long rows. At most 2^31 - 1 rows.
template <class Body>
void for_each_long_row(const Device& device, std::int64_t rows, const Body& body) {
  if (rows == 0) return;
  block_rows_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, device.stream()>>>(body);
  check(cudaGetLastError(), "start a kernel over long rows");
}

}  // namespace distdl::kernels::cuda
