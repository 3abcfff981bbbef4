// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::cuda {

/// Throws BackendUnavailable, with CUDA's reason, if there is no GPU that can run this program.
std::unique_ptr<Backend> make_backend(const Options& options);

}  // namespace distdl::kernels::cuda
