// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/layers/number_check.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>

namespace distdl::kernels::cuda {

void check_numbers(const Device& device, const Numbers& numbers, NumberFault::Of of) {
  for_each_long_row(device, 1, ReportFirstFault{numbers, of, device.number_fault()});
}

}  // namespace distdl::kernels::cuda
