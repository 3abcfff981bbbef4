// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/reserved_memory.hpp>

namespace distdl::kernels::cuda {
namespace {
/// Functions of the driver's library, which the loader has opened: the plug-in does not link it, so that it can be
/// loaded, and report its error, where there is none.
struct Driver {
  decltype(&cuDeviceGetAttribute) get_attribute;
  decltype(&cuMemGetAllocationGranularity) get_granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  require(
      function != nullptr,
      "NVIDIA's driver on this machine has no {}, which parallel.strategy = \"sharded_parameters\" needs: install a "
      "newer driver, or use \"sharded_gradients\"",
      name);
}

const Driver& driver() {
  static const Driver found = [] {
    void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);  // never closed, as in loader.cpp
    Driver all{};
    find(library, "cuDeviceGetAttribute", all.get_attribute);
    find(library, "cuMemGetAllocationGranularity", all.get_granularity);
    find(library, "cuMemAddressReserve", all.reserve);
    find(library, "cuMemAddressFree", all.free);
    find(library, "cuMemCreate", all.create);
    find(library, "cuMemRelease", all.release);
    find(library, "cuMemMap", all.map);
    find(library, "cuMemUnmap", all.unmap);
    find(library, "cuMemSetAccess", all.set_access);
    return all;
  }();
  return found;
}

CUmemAllocationProp memory_of(int gpu) {
  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.location.id = gpu;
  return memory;
}

std::size_t granularity_of(int gpu) {
  int is_supported = 0;
  check(driver().get_attribute(&is_supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu),
        "ask what the GPU supports");
  require(is_supported != 0,
          "GPU {} has no virtual memory management, which parallel.strategy = \"sharded_parameters\" needs: use "
          "\"sharded_gradients\"",
          gpu);
  const CUmemAllocationProp memory = memory_of(gpu);
  std::size_t granularity = 0;
  check(driver().get_granularity(&granularity, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "get the granularity of the GPU's memory");
  return granularity;
}

CUdeviceptr number_of(const std::byte* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

/// The mapping alone keeps the memory.
void map(int gpu, const std::byte* address, std::size_t bytes) {
  const CUmemAllocationProp memory = memory_of(gpu);
  CUmemGenericAllocationHandle handle{};
  check(driver().create(&handle, bytes, &memory, 0), fmt::format("allocate {} bytes on GPU {}", bytes, gpu));
  const CUresult mapped = driver().map(number_of(address), bytes, 0, handle, 0);
  check(driver().release(handle), "release memory of the GPU");
  check(mapped, "map memory of the GPU");
}
}  // namespace

ReservedMemory::ReservedMemory(int gpu, std::size_t bytes)
    : gpu_(gpu), bytes_(bytes), granules_(std::max<std::size_t>(bytes, 1), granularity_of(gpu)) {
  CUdeviceptr address = 0;
  check(driver().reserve(&address, reserved_bytes(), 0, 0, 0),
        fmt::format("reserve {} bytes of addresses on GPU {}", bytes, gpu));
  data_ = reinterpret_cast<std::byte*>(address);
}

// Codes are ignored: at the end of the program CUDA may be closed already.
ReservedMemory::~ReservedMemory() {
  if (cudaSetDevice(gpu_) != cudaSuccess) return;
  (void)cudaDeviceSynchronize();
  for (const auto& [first, count] : granules_.all_committed())
    for (std::size_t i = first; i < first + count; ++i)
      (void)driver().unmap(number_of(data_ + i * granules_.size()), granules_.size());
  (void)driver().free(number_of(data_), reserved_bytes());
}

std::size_t ReservedMemory::reserved_bytes() const {
  const std::size_t size = granules_.size();
  return (std::max<std::size_t>(bytes_, 1) + size - 1) / size * size;
}

void ReservedMemory::commit(std::span<std::byte> memory, cudaStream_t stream) {
  const std::size_t begin = place_of(memory.data()), size = granules_.size();
  for (const auto& [first, count] : granules_.commit(begin, begin + memory.size())) {
    std::byte* const address = data_ + first * size;
    for (std::size_t i = 0; i < count; ++i) map(gpu_, address + i * size, size);
    CUmemAccessDesc access{};
    access.location = memory_of(gpu_).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check(driver().set_access(number_of(address), count * size, &access, 1), "give the GPU access to its memory");
    check(cudaMemsetAsync(address, 0, count * size, stream), "zero new memory");
  }
}

/// Granule by granule, as they were mapped.
void ReservedMemory::discard(std::span<std::byte> memory) {
  const std::size_t begin = place_of(memory.data()), size = granules_.size();
  for (const auto& [first, count] : granules_.discard(begin, begin + memory.size()))
    for (std::size_t i = first; i < first + count; ++i)
      check(driver().unmap(number_of(data_ + i * size), size), "give memory of the GPU back");
}

}  // namespace distdl::kernels::cuda
