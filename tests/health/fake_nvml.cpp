// SPDX-License-Identifier: Apache-2.0
// Three GPUs: one is well, one is hot and slowed down, one does not answer. With FAKE_NVML_ERRORS set, the memory of
// the first two has had more errors than an int64_t holds.
#include <cstdlib>

namespace {
unsigned number_of(void* device) {
  return static_cast<unsigned>(reinterpret_cast<unsigned long long>(device) - 1);
}
constexpr int kLost = 15;  // NVML_ERROR_GPU_IS_LOST
}  // namespace

#pragma GCC visibility push(default)
extern "C" {
int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(index + 1ULL);
  return index < 2 ? 0 : kLost;
}
int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* degrees) {
  *degrees = 40 + 48 * number_of(device) + sensor;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = number_of(device) == 1 ? 0x44 : 0x1;  // 0x1: it has nothing to do
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, unsigned kind, unsigned counter, unsigned long long* errors) {
  *errors = kind == 0 ? 7 + number_of(device) : 0;
  if (std::getenv("FAKE_NVML_ERRORS")) *errors = ~0ULL;
  return counter == 0 ? 0 : kLost;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  *millijoules = 1500 + 1000 * number_of(device);
  return 0;
}
}
#pragma GCC visibility pop
