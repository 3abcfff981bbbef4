// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {

bool onednn_is_built() {
  return false;
}

std::unique_ptr<Backend> make_onednn_backend(const Options&) {
  throw BackendUnavailable(
      "the backend \"onednn\" was not built into this program; install oneDNN (libdnnl-dev), configure with "
      "-DDISTDL_ONEDNN=ON and build again, or set kernels.backend = \"auto\"");
}

}  // namespace distdl::kernels
