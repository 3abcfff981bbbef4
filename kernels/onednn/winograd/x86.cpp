// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/context.hpp>
#include <distdl/kernels/onednn/winograd/loops.hpp>

namespace distdl::kernels::onednn::winograd {

const LoopsOfProcessor& loops() {
  if (includes(dnnl::cpu_isa::avx512_core)) return kAvx512;
  return includes(dnnl::cpu_isa::avx2) ? kAvx2 : kBaseline;
}

}  // namespace distdl::kernels::onednn::winograd
