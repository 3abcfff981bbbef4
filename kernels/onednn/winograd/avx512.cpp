// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/winograd/winograd_loops.hpp>

namespace distdl::kernels::onednn::winograd {

struct Avx512Processor {
  static constexpr int kLanes = 16, kVector = 16, kRows = 8;
};
constexpr LoopsOfProcessor kAvx512 = loops_of<Avx512Processor>();

}  // namespace distdl::kernels::onednn::winograd
