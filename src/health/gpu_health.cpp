// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <dlfcn.h>

#include <distdl/base/log.hpp>
#include <distdl/health/gpu_health.hpp>

namespace distdl::health {
namespace {
// From nvml.h, whose interface does not change: 0 is success, and a device is an opaque pointer.
using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kTemperatureOfGpu = 0;
constexpr unsigned kCorrected = 0, kUncorrected = 1, kSinceDriverBegan = 0;
constexpr unsigned long long kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20, kHardwareThermal = 0x40,
                             kPowerBrake = 0x80;
}  // namespace

struct GpuMonitor::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;
  int (*throttle_reasons)(Device, unsigned long long*) = nullptr;
  int (*memory_errors)(Device, unsigned, unsigned, unsigned long long*) = nullptr;
  int (*energy)(Device, unsigned long long*) = nullptr;  ///< none in old libraries
};

namespace {
template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

template <class Value>
std::optional<Value> answer(int result, Value value) {
  return result == kSuccess ? std::optional(value) : std::nullopt;
}
}  // namespace

// The library stays open: drivers do not expect to be unloaded.
std::unique_ptr<GpuMonitor> GpuMonitor::open(const std::string& library) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return nullptr;
  auto functions = std::make_unique<Functions>();
  const bool complete = find(opened, "nvmlInit_v2", functions->init) &&
                        find(opened, "nvmlShutdown", functions->shutdown) &&
                        find(opened, "nvmlDeviceGetCount_v2", functions->count) &&
                        find(opened, "nvmlDeviceGetHandleByIndex_v2", functions->device) &&
                        find(opened, "nvmlDeviceGetTemperature", functions->temperature) &&
                        find(opened, "nvmlDeviceGetCurrentClocksThrottleReasons", functions->throttle_reasons) &&
                        find(opened, "nvmlDeviceGetTotalEccErrors", functions->memory_errors);
  find(opened, "nvmlDeviceGetTotalEnergyConsumption", functions->energy);
  if (!complete || functions->init() != kSuccess) {
    log(Severity::debug, "\"{}\" does not tell the state of GPUs", library);
    return nullptr;
  }
  std::unique_ptr<GpuMonitor> monitor(new GpuMonitor(std::move(functions)));
  return monitor->read().gpus > 0 ? std::move(monitor) : nullptr;
}

GpuMonitor::GpuMonitor(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

GpuMonitor::~GpuMonitor() {
  if (functions_->shutdown() != kSuccess) log(Severity::debug, "the library that tells the state of GPUs did not end");
}

GpuHealth GpuMonitor::read() const {
  GpuHealth health;
  unsigned count = 0;
  if (functions_->count(&count) != kSuccess) return health;
  for (unsigned number = 0; number < count; ++number) {
    ++health.gpus;
    Device device = nullptr;
    if (functions_->device(number, &device) != kSuccess) continue;
    unsigned degrees = 0;
    if (const int result = functions_->temperature(device, kTemperatureOfGpu, &degrees); result == kSuccess)
      health.hottest = std::max(health.hottest.value_or(0), static_cast<double>(degrees));
    unsigned long long reasons = 0;
    if (functions_->throttle_reasons(device, &reasons) == kSuccess)
      health.throttled += (reasons & (kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake)) != 0;
    const auto add_errors = [&](unsigned kind, std::optional<std::int64_t>& sum) {
      unsigned long long errors = 0;
      const int result = functions_->memory_errors(device, kind, kSinceDriverBegan, &errors);
      constexpr auto kMost = static_cast<unsigned long long>(GpuHealth::kMostErrors);
      if (const auto more = answer(result, static_cast<std::int64_t>(std::min(errors, kMost))))
        sum = std::min(sum.value_or(0) + *more, GpuHealth::kMostErrors);
    };
    unsigned long long millijoules = 0;
    if (functions_->energy != nullptr && functions_->energy(device, &millijoules) == kSuccess)
      health.energy = health.energy.value_or(0) + static_cast<double>(millijoules) * 1e-3;
    add_errors(kCorrected, health.corrected_errors);
    add_errors(kUncorrected, health.uncorrected_errors);
  }
  return health;
}

}  // namespace distdl::health
