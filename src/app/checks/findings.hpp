// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace distdl::app {

enum class Health { ok, warn, fail };

/// One line of `distdl doctor`.
struct Finding {
  std::string what;
  Health health;
  std::string found;
  std::string advice;  ///< what to do; empty if all is well
};

/// To stdout, with colours on a terminal.
void print_table(const std::vector<Finding>& findings);
nlohmann::ordered_json to_json(const std::vector<Finding>& findings);
bool has_failed(const std::vector<Finding>& findings);

}  // namespace distdl::app
