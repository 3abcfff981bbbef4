// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/plugin.hpp>

// A plug-in of another version of distdl.
extern "C" __attribute__((visibility("default")))
const distdl::kernels::cuda::Plugin distdl_cuda_plugin{"0.0.1-other", nullptr};
