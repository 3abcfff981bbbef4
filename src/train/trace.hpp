// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace distdl::train {

/// The steps from `first` to `last`, both included, numbered as in metrics.jsonl.
struct TracedSteps {
  std::int64_t first = 1, last = 0;
  bool has(std::int64_t step) const { return step >= first && step <= last; }
  friend bool operator==(const TracedSteps&, const TracedSteps&) = default;
};

/// Parses "A:B", or "A" for one step. Throws ConfigError that names `what`, for instance "log.trace".
TracedSteps traced_steps_from(const std::string& text, const std::string& what);
/// As traced_steps_from(); returns nothing for "off".
std::optional<TracedSteps> traced_steps_or_off(const std::string& text, const std::string& what);

/// The steps that a run traces, and the place of the files: one folder per start, with one file per rank
/// (trace_file.hpp).
struct TraceSetting {
  std::filesystem::path folder;  ///< folder of all starts: trace/ in the run folder
  TracedSteps steps;
};

}  // namespace distdl::train
