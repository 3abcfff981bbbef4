// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/winograd/winograd_loops.hpp>

namespace distdl::kernels::onednn::winograd {

struct Avx2Processor {
  static constexpr int kLanes = 8, kVector = 8, kRows = 4;
};
constexpr LoopsOfProcessor kAvx2 = loops_of<Avx2Processor>();

}  // namespace distdl::kernels::onednn::winograd
