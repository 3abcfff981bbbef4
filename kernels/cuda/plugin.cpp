// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/backend.hpp>
#include <distdl/kernels/cuda/plugin.hpp>
#include <distdl/kernels/options.hpp>

namespace {
distdl::kernels::Backend* make(const distdl::kernels::Options& options) {
  return distdl::kernels::cuda::make_backend(options).release();
}
}  // namespace

// The name is kPluginSymbol.
extern "C" __attribute__((visibility("default")))
const distdl::kernels::cuda::Plugin distdl_cuda_plugin{DISTDL_KERNELS_INTERFACE, &make};
