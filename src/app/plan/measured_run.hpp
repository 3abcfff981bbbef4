// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace distdl::app {

/// A number of ranks, and how they divided training; empty: not known, as of a run by an older version.
using RanksAndProduct = std::pair<std::int64_t, std::string>;

/// Measurements of a run's starts with one product, according to its records.
struct MeasuredRun {
  std::vector<double> samples_per_second;
  double memory_bytes = 0;  ///< memory of rank 0; 0: not known
  double moved_bytes = 0;   ///< bytes that rank 0 moves in the collectives of a step; 0: not known
  std::int64_t nodes = 1;   ///< number of nodes that ran ranks; 0: not equally many on each
};

/// The measurements by product: the journal tells when the ranks trained as which. `spares`: nodes of a job that began
/// without ranks.
std::map<RanksAndProduct, MeasuredRun> measured_runs(const std::filesystem::path& run_folder, std::int64_t spares = 0);

}  // namespace distdl::app
