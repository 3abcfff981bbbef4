// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace distdl::kernels::cuda {

// The only place where return codes of CUDA, its driver, cuBLAS and cuDNN become exceptions. `what` completes "cannot
// ...". Throws ConfigError if the GPU's memory is full, else Error (internal).
void check(cudaError_t code, std::string_view what);
void check(CUresult code, std::string_view what);
void check(cublasStatus_t code, std::string_view what);
void check(cudnnStatus_t code, std::string_view what);

/// Whether cuDNN supports the call. Other errors are thrown.
bool is_supported(cudnnStatus_t code, std::string_view what);

/// Does the work. Returns false if the GPU's memory does not suffice. Other errors are thrown.
bool fits_in_memory(const std::function<void()>& work);

/// The text of a code, such as "no CUDA-capable device is detected (cudaErrorNoDevice)".
std::string text_of(cudaError_t code);

}  // namespace distdl::kernels::cuda
