// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/cuda/device/choose_gpu.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/primitives/elementwise.hpp>
#include <distdl/kernels/unavailable.hpp>

namespace distdl::kernels::cuda {
namespace {
int driver_version() {
  int number = 0;
  check(cudaDriverGetVersion(&number), "get the driver's version");
  return number;
}

std::string reason_for_none(cudaError_t code) {
  if (code != cudaErrorInsufficientDriver) return "no GPU can be used here: " + text_of(code);
  int driver = driver_version();
  if (driver == 0) return "there is no NVIDIA driver on this machine, or it does not answer: " + text_of(code);
  return fmt::format("the NVIDIA driver here is too old: it supports CUDA {}, but this distdl was built with CUDA {}",
                     cuda_version(driver), cuda_version(CUDART_VERSION));
}

void require_kernels_for(int ordinal) {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, ordinal), fmt::format("get the properties of GPU {}", ordinal));
  check(cudaSetDevice(ordinal), fmt::format("use GPU {}", ordinal));
  cudaError_t code = probe_kernels();
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();
  throw BackendUnavailable(
      fmt::format("GPU {} ({}, compute capability {}.{}) cannot run this distdl's kernels: {}; configure with "
                  "-DCMAKE_CUDA_ARCHITECTURES={}{} and build again, or set kernels.backend = \"onednn\"",
                  ordinal, gpu.name, gpu.major, gpu.minor, text_of(code), gpu.major, gpu.minor));
}
}  // namespace

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

int choose_gpu(std::int64_t wanted) {
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) (void)cudaGetLastError();
  if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess)
    throw BackendUnavailable(fmt::format(
        "the backend \"cuda\" cannot run: {}; check \"nvidia-smi\" and CUDA_VISIBLE_DEVICES, request a GPU from Slurm "
        "(--gpus-per-task=1), or set kernels.backend = \"auto\"",
        reason_for_none(code)));
  int ordinal = static_cast<int>(std::max<std::int64_t>(wanted, 0) % count);
  require_kernels_for(ordinal);
  return ordinal;
}

}  // namespace distdl::kernels::cuda
