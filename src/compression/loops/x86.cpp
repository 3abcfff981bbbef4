// SPDX-License-Identifier: Apache-2.0
#include <distdl/compression/loops/loops.hpp>

namespace distdl::compression {

const Loops& loops() {
  static const Loops& best = __builtin_cpu_supports("avx2") ? kAvx2 : kBaseline;
  return best;
}

}  // namespace distdl::compression
