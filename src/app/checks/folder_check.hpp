// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/app/checks/findings.hpp>

namespace distdl::app {

/// Checks whether a folder is suitable for checkpoints: kind of file system, free space, and a real write, fsync and
/// rename.
Finding check_folder(const std::filesystem::path& folder);

}  // namespace distdl::app
