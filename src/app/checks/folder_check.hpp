// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace distdl::app {

enum class Health { ok, warn, fail };

/// One line of `distdl doctor`.
struct Finding {
  std::string what;
  Health health;
  std::string found;
  std::string advice;  ///< the remedy; empty if nothing is wrong
};

/// Checks whether a folder is suitable for checkpoints: kind of file system, free space, and a real write, fsync and
/// rename.
Finding check_folder(const std::filesystem::path& folder);

}  // namespace distdl::app
