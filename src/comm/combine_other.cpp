// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/combine_kernels.hpp>

namespace distdl::comm {

const CombineKernels& combine_kernels() {
  return kCombineBaseline;
}

}  // namespace distdl::comm
