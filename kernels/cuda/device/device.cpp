// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/device/choose_gpu.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/device.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20;  // bytes: what NVIDIA recommends for Hopper

/// Whole "major.minor.patch" of cuBLAS.
std::string blas_version() {
  int major = 0, minor = 0, patch = 0;
  check(cublasGetProperty(MAJOR_VERSION, &major), "get cuBLAS's version");
  check(cublasGetProperty(MINOR_VERSION, &minor), "get cuBLAS's version");
  check(cublasGetProperty(PATCH_LEVEL, &patch), "get cuBLAS's version");
  return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace

Device::Device(int ordinal, const Arithmetic& arithmetic)
    : ordinal_(ordinal),
      arithmetic_(arithmetic),
      stream_((make_current(), make_stream())),
      blas_(make_blas(stream_.get())),
      blas_lt_(make_blas_lt()),
      dnn_(make_dnn(stream_.get())),
      blas_workspace_(allocate(kBlasWorkspace)),
      number_fault_(allocate_pinned(sizeof(NumberFault))),
      rng_key_(allocate(sizeof(RngKey))) {
  // One of its own: else cuBLAS allocates where a step is recorded, and results may depend on what it gets.
  check(cublasSetWorkspace(blas_.get(), blas_workspace_.data(), blas_workspace_.bytes()), "set cuBLAS's workspace");
}

void Device::make_current() const {
  check(cudaSetDevice(ordinal_), fmt::format("use GPU {}", ordinal_));
}

cudaStream_t Device::stream() const {
  make_current();
  return stream_.get();
}

cublasHandle_t Device::blas() const {
  make_current();
  return blas_.get();
}

cublasLtHandle_t Device::blas_lt() const {
  make_current();
  return blas_lt_.get();
}

cudnnHandle_t Device::dnn() const {
  make_current();
  return dnn_.get();
}

void Device::wait() const {
  check(cudaStreamSynchronize(stream()), "finish the work on the GPU");
  const NumberFault fault = std::exchange(*number_fault(), NumberFault{});
  require(fault.of != NumberFault::Of::label, "row {} of the microbatch has label {}, but the model has {} classes",
          fault.place, fault.number, fault.limit);
  require(fault.of != NumberFault::Of::table_row,
          "position {} of the microbatch has number {}, but the table has {} rows", fault.place, fault.number,
          fault.limit);
}

tensor::Buffer Device::allocate_unset(std::size_t bytes) const {
  make_current();
  void* data = nullptr;
  check(cudaMalloc(&data, std::max<std::size_t>(bytes, 1)),
        fmt::format("allocate {} bytes on GPU {}", bytes, ordinal_));
  return {data, bytes, [ordinal = ordinal_](void* memory) {
            if (cudaSetDevice(ordinal) == cudaSuccess) (void)cudaFree(memory);
          }};
}

tensor::Buffer Device::allocate(std::size_t bytes) const {
  tensor::Buffer buffer = allocate_unset(bytes);
  check(cudaMemsetAsync(buffer.data(), 0, bytes, stream_.get()), "zero new memory");
  check(cudaStreamSynchronize(stream_.get()), "zero new memory");
  return buffer;
}

tensor::Buffer Device::allocate_pinned(std::size_t bytes) const {
  make_current();
  void* data = nullptr;
  check(cudaHostAlloc(&data, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable | cudaHostAllocMapped),
        fmt::format("allocate {} bytes of pinned host memory", bytes));
  std::memset(data, 0, bytes);
  return tensor::Buffer(data, bytes, [](void* memory) { (void)cudaFreeHost(memory); });
}

void Device::reserve(Workspace workspace, std::size_t bytes) {
  tensor::Buffer& buffer = workspaces_[static_cast<std::size_t>(workspace)];
  if (bytes <= buffer.bytes()) return;
  buffer = allocate(bytes);
  ++moves_;
}

std::string Device::arithmetic_note() const {
  std::string note = arithmetic_.allows_tf32 ? ", tf32" : "";
  if (arithmetic_.activations == tensor::DataType::bfloat16) note = ", bf16";
  if (arithmetic_.activations == tensor::DataType::float16) note = ", fp16";
  return note + (arithmetic_.is_deterministic ? "" : ", not deterministic");
}

std::string Device::description() const {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, ordinal_), fmt::format("get the properties of GPU {}", ordinal_));
  std::size_t dnn = cudnnGetVersion();
  return fmt::format("cuda: {} (compute capability {}.{}), CUDA {}, cuDNN {}.{}.{}, cuBLAS {}{}", gpu.name, gpu.major,
                     gpu.minor, cuda_version(CUDART_VERSION), dnn / 10000, dnn % 10000 / 100, dnn % 100, blas_version(),
                     arithmetic_note());
}

}  // namespace distdl::kernels::cuda
