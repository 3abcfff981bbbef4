// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace distdl::health {

/// Counts the energy that a node has used since the first reading, by the counters of its processors and memory (RAPL,
/// as Linux shows it below /sys/class/powercap) and of its GPUs.
class EnergyMeter {
 public:
  /// `root`: replaced by tests.
  explicit EnergyMeter(const std::filesystem::path& root = "/");
  /// Joules; nothing: no counter tells. Often only root may read those of processors. They begin again within minutes
  /// to hours, so that readings must be at most a few minutes apart. `gpus`: the counter of all GPUs of the node.
  std::optional<double> read(const std::optional<double>& gpus);

 private:
  struct Counter {
    std::filesystem::path file;
    double range = 0;                 ///< joules after which it begins again at 0
    std::optional<double> last = {};  ///< joules
  };
  std::vector<Counter> counters_;
  std::optional<double> last_of_gpus_;
  double used_ = 0;
};

}  // namespace distdl::health
