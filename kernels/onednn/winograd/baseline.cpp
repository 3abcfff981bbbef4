// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/winograd/winograd_loops.hpp>

namespace distdl::kernels::onednn::winograd {

struct BaselineProcessor {
  static constexpr int kLanes = 8, kRows = 4;
};
constexpr LoopsOfProcessor kBaseline = loops_of<BaselineProcessor>();

}  // namespace distdl::kernels::onednn::winograd
