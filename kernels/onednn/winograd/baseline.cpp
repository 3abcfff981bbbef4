// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/winograd/winograd_loops.hpp>

namespace distdl::kernels::onednn::winograd {

struct BaselineProcessor {
  static constexpr int kLanes = 8, kVector = 4;
#if defined(__x86_64__)
  static constexpr int kRows = 2;  // it has 16 registers
#else
  static constexpr int kRows = 4;
#endif
};
constexpr LoopsOfProcessor kBaseline = loops_of<BaselineProcessor>();

}  // namespace distdl::kernels::onednn::winograd
