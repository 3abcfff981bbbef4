// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/combine_loops.hpp>

namespace distdl::comm {

struct Avx512;
constexpr CombineKernels kCombineAvx512 = CombineLoops<Avx512>::kernels();

}  // namespace distdl::comm
