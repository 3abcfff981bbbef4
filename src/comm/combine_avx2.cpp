// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/combine_loops.hpp>

namespace distdl::comm {

struct Avx2;
constexpr CombineKernels kCombineAvx2 = CombineLoops<Avx2>::kernels();

}  // namespace distdl::comm
