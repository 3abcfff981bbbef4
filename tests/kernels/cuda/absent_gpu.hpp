// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <cudnn.h>
#include <dlfcn.h>

// cuDNN's plans for GPUs that are not there: it chooses its engines, compiles them and plans, with a driver that only
// pretends to take the result.
namespace distdl::kernels::cuda::test {

struct Gpu {
  const char* name;
  int capability, processors, shared_memory, l2_cache;
  std::int64_t memory;
};
inline constexpr Gpu kH200{"H200", 900, 132, 232448, 62914560, 150754820096},
    kA100{"A100", 800, 108, 166912, 41943040, 85899345920};

inline std::string json(const Gpu& gpu) {
  const auto number = [](const char* key, std::int64_t value) {
    return std::string(",\"") + key + "\":" + std::to_string(value);
  };
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64])" + number("regsPerBlock", 65536) +
         number("multiProcessorCount", gpu.processors) + number("warpSize", 32) +
         number("maxSharedMemoryPerBlock", 49152) + number("maxSharedMemoryPerBlockOptin", gpu.shared_memory) +
         number("reservedSharedMemoryPerBlock", 1024) + number("maxRegistersPerSM", 65536) +
         number("maxCtasPerSM", 32) + number("maxThreadsPerBlock", 1024) + number("maxThreadsPerSM", 2048) +
         number("pciDeviceId", 0) + number("isTccDriver", 0) + number("supportCoopLaunch", 1) +
         number("totalGlobalMem", gpu.memory) + number("smClockRateKHz", 1500000) + number("memClockRateKHz", 1500000) +
         number("l2CacheSize", gpu.l2_cache) + number("cudaDeviceId", 0) + number("deviceVer", gpu.capability) +
         number("driverVer", static_cast<std::int64_t>(cudnnGetCudartVersion())) + R"(,"deviceName":"NVIDIA )" +
         gpu.name + "\"}";
}

/// Loads the pretending driver, in place of a real one. Returns why it is not to be tried.
inline std::string obstacle() {
  if (cudnnGetVersion() <= 91500) return "cuDNN is older than 9.15.1";
  static const bool has_driver = dlopen(DISTDL_PLANNING_DRIVER, RTLD_NOW | RTLD_LOCAL) != nullptr;
  if (!has_driver) return "the test's driver cannot be opened";
  const std::string compiler = "libnvrtc.so." + std::to_string(cudnnGetCudartVersion() / 1000);
  if (dlopen(compiler.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return compiler + " is not installed";
  return "";
}

}  // namespace distdl::kernels::cuda::test
