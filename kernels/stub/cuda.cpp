// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {

bool cuda_is_built() {
  return false;
}

std::unique_ptr<Backend> make_cuda_backend(const Options&) {
  throw BackendUnavailable(
      "the backend \"cuda\" was not built into this program; install the CUDA toolkit and cuDNN 9, configure with "
      "-DDISTDL_CUDA=ON and build again, or set kernels.backend = \"auto\"");
}

}  // namespace distdl::kernels
