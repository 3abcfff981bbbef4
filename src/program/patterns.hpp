// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <distdl/program/contract.hpp>
#include <distdl/program/options.hpp>

namespace distdl::program {

/// Facts that a line of output tells.
struct LineFacts {
  std::optional<std::int64_t> step = {};   ///< steps that are done
  std::optional<std::int64_t> steps = {};  ///< steps that there are
  std::vector<NamedValue> metrics = {};
};

/// The patterns of a job for lines of output.
class Patterns {
 public:
  /// Throws ConfigError.
  explicit Patterns(const Options& options);
  bool has_progress() const { return progress_.has_value(); }
  bool is_empty() const { return !progress_ && metrics_.empty(); }
  /// Looks at the first 2,000 bytes.
  LineFacts look(std::string_view line) const;

 private:
  std::optional<std::regex> progress_;
  std::vector<std::pair<std::string, std::regex>> metrics_;
};

}  // namespace distdl::program
