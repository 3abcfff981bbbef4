// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <distdl/records/nodes.hpp>

namespace distdl::health {

using records::GpuHealth;

/// NVIDIA's management library, opened at run time.
class GpuMonitor {
 public:
  /// Nothing if there is no library, or no GPU.
  static std::unique_ptr<GpuMonitor> open(const std::string& library = "libnvidia-ml.so.1");
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// Takes some milliseconds for each GPU. GPUs that do not answer are counted, and tell nothing.
  GpuHealth read() const;

 private:
  struct Functions;
  explicit GpuMonitor(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
};

}  // namespace distdl::health
