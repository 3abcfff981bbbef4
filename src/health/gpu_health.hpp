// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace distdl::health {

/// State of all GPUs of a node together. Nothing where a GPU does not report a value.
struct GpuHealth {
  int gpus = 0;
  std::optional<double> hottest = {};  ///< degrees Celsius
  int throttled = 0;                   ///< GPUs whose clocks are lowered by heat or by the power supply
  std::optional<std::int64_t> corrected_errors = {},
                              uncorrected_errors = {};  ///< memory errors since the driver began, up to kMostErrors
  std::optional<double> energy = {};                    ///< joules since the driver began; of GPUs from 2017 on
  static constexpr std::int64_t kMostErrors = 1'000'000'000;
};

/// NVIDIA's management library, opened at run time.
class GpuMonitor {
 public:
  /// Nothing if there is no library, or no GPU.
  static std::unique_ptr<GpuMonitor> open(const std::string& library = "libnvidia-ml.so.1");
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// Takes some milliseconds for each GPU. GPUs that do not answer are counted, and have no values.
  GpuHealth read() const;

 private:
  struct Functions;
  explicit GpuMonitor(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
};

}  // namespace distdl::health
