// SPDX-License-Identifier: Apache-2.0
// In place of dnn_attention.cu, with a cuDNN that is too old for it.
#include <distdl/kernels/cuda/layers/layers.hpp>

namespace distdl::kernels::cuda {

std::unique_ptr<Layer> make_dnn_attention(SharedDevice, const Attention&, const ActivationFormat&) {
  return nullptr;
}

}  // namespace distdl::kernels::cuda
