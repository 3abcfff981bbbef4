// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/plugin.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/kernels/unavailable.hpp>

namespace {
using namespace distdl;

/// Place 1 has no GPU; every other place has one that cannot be used.
kernels::Backend* make(const kernels::Options& options) {
  if (options.device == 1) throw kernels::BackendUnavailable("there is no GPU at place 1");
  throw ConfigError("the GPU's memory is full");
}
}  // namespace

extern "C" __attribute__((visibility("default")))
const kernels::cuda::Plugin distdl_cuda_plugin{DISTDL_KERNELS_INTERFACE, &make};
