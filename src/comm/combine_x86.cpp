// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/combine_kernels.hpp>

namespace distdl::comm {

const CombineKernels& combine_kernels() {
  static const CombineKernels& best = [&]() -> const CombineKernels& {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return kCombineAvx512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? kCombineAvx2 : kCombineBaseline;
  }();
  return best;
}

}  // namespace distdl::comm
