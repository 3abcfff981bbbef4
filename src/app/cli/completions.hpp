// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/app/cli/command_entry.hpp>

namespace distdl::app {

/// Shells for which there is a completion().
const std::vector<std::string>& completed_shells();

/// A script by which this shell completes commands, options, their choices, the keys of --set, and names of files.
/// `keys`: those of a job file. Throws UsageError for a shell that is not one of completed_shells().
std::string completion(const std::string& shell, const CommandEntry& root, const std::vector<std::string>& keys);

}  // namespace distdl::app
