// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <distdl/comm/cost_table.hpp>

namespace distdl::comm {

/// Converts the costs to a JSON document with version and hosts, and back. Throws ConfigError with the reason for an
/// invalid text.
std::string to_json(const CostTable& costs, std::span<const std::string> hosts);
CostTable costs_from_json(const std::string& text);

/// The file in which "distdl bench comm --tune" stores the costs between these hosts. It is in $XDG_CACHE_HOME/distdl
/// or ~/.cache/distdl, and is named after the first and the last host in alphabetical order. Returns nothing if there
/// is no home folder.
std::optional<std::filesystem::path> cost_file(std::span<const std::string> hosts);

/// The costs that were measured between these hosts, else the defaults. Warns about a file that cannot be read. Rank 0
/// calls this and sends the result to all others. `hosts` are the hosts of all ranks, in any order.
CostTable load_costs(std::span<const std::string> hosts);

/// Returns the file. Throws StorageError.
std::filesystem::path save_costs(const CostTable& costs, std::span<const std::string> hosts);

}  // namespace distdl::comm
