// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <distdl/comm/cost_table.hpp>

namespace distdl::comm {

/// As a JSON document with version and hosts, and back. Throws ConfigError saying what is wrong with the text.
std::string to_json(const CostTable& costs, std::span<const std::string> hosts);
CostTable costs_from_json(const std::string& text);

/// Where "distdl bench comm --tune" keeps the costs between these hosts: in $XDG_CACHE_HOME/distdl or ~/.cache/distdl,
/// named after the first and the last of them in alphabetical order. Nothing where there is no home.
std::optional<std::filesystem::path> cost_file(std::span<const std::string> hosts);

/// The costs measured between these hosts, else the defaults; a file that cannot be read is named in a warning. For
/// rank 0, which gives what it got to all others. `hosts`: of each rank, in any order.
CostTable load_costs(std::span<const std::string> hosts);

/// Returns the file. Throws StorageError.
std::filesystem::path save_costs(const CostTable& costs, std::span<const std::string> hosts);

}  // namespace distdl::comm
