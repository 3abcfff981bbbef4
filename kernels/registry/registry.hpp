// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/unavailable.hpp>

// Each backend's folder defines these functions. For a backend that is not built, the folder stub/ defines them.
namespace distdl::kernels {

std::unique_ptr<Backend> make_reference_backend(const Options& options);

bool onednn_is_built();
/// Throws BackendUnavailable if it is not built.
std::unique_ptr<Backend> make_onednn_backend(const Options& options);

bool cuda_is_built();
/// Throws BackendUnavailable if it is not built or there is no usable GPU.
std::unique_ptr<Backend> make_cuda_backend(const Options& options);

}  // namespace distdl::kernels
