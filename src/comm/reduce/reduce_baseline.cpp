// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/reduce/reduce_loops.hpp>

namespace distdl::comm {

struct Baseline;
constexpr ReduceKernels kReduceBaseline = ReduceLoops<Baseline>::kernels();

}  // namespace distdl::comm
