// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>

namespace distdl::kernels::cuda {
namespace {
[[noreturn]] void fail(std::string_view what, std::string_view library, const std::string& text, bool memory_is_full) {
  std::string problem = fmt::format("cannot {} ({}: {})", what, library, text);
  if (memory_is_full)
    throw ConfigError(problem +
                      "; the GPU's memory is full: use smaller microbatches, or a GPU that no other process uses");
  throw Error(ExitCode::internal, problem + "; \"nvidia-smi\" shows whether the GPU is healthy");
}
}  // namespace

std::string text_of(cudaError_t code) {
  return fmt::format("{} ({})", cudaGetErrorString(code), cudaGetErrorName(code));
}

void check(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next launch's check would report this failure again
  fail(what, "CUDA", text_of(code), code == cudaErrorMemoryAllocation);
}

/// The codes of the driver have the numbers of CUDA's own.
void check(CUresult code, std::string_view what) {
  check(static_cast<cudaError_t>(code), what);
}

void check(cublasStatus_t code, std::string_view what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  fail(what, "cuBLAS", cublasGetStatusString(code), code == CUBLAS_STATUS_ALLOC_FAILED);
}

bool is_supported(cudnnStatus_t code, std::string_view what) {
  if (CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check(code, what);
  return true;
}

void check(cudnnStatus_t code, std::string_view what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> details{};
  cudnnGetLastErrorString(details.data(), details.size());
  fail(what, "cuDNN", fmt::format("{} {}", cudnnGetErrorString(code), details.data()),
       code == CUDNN_STATUS_ALLOC_FAILED);
}

bool fits_in_memory(const std::function<void()>& work) {
  try {
    work();
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

}  // namespace distdl::kernels::cuda
