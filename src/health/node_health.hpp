// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <distdl/health/gpu_health.hpp>

namespace distdl::health {

/// A node's report of its own state. Nothing where the system does not report a value, as in a container.
struct NodeHealth {
  std::optional<double> load = {};  ///< mean number of processes that want a processor, of one minute, per processor
  // Shares of the last minute in which a process waited, 0 .. 1; Linux calls this pressure.
  std::optional<double> cpu_pressure = {}, memory_pressure = {}, io_pressure = {};
  std::optional<double> free_memory = {};             ///< share of the memory that a new process can have, 0 .. 1
  std::optional<std::int64_t> throttles = {};         ///< since boot: how often processors were slowed down by heat
  std::optional<std::int64_t> corrected_errors = {};  ///< errors of the memory, since boot
  std::optional<std::int64_t> uncorrected_errors = {};
  std::optional<double> energy = {};  ///< joules, see EnergyMeter; not from read_node_health()
  std::optional<GpuHealth> gpus = {};
};

/// Reads /proc and /sys below `root`, which tests replace: some dozen small files. The GPUs are not asked.
NodeHealth read_node_health(const std::filesystem::path& root = "/");

}  // namespace distdl::health
