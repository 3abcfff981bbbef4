// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace distdl {

/// The paths of a plug-in of distdl, such as "libdistdl_slurm.so", best first. If DISTDL_PLUGIN_PATH (folders separated
/// by colons) is set, these are its folders only. Otherwise they are distdl/ beside this shared library, ../lib/
/// relative to the program or library with this code, and the installation folder.
std::vector<std::filesystem::path> plugin_candidates(const std::string& file);

/// The first of these paths that is a file. Returns nothing if there is none.
std::optional<std::filesystem::path> find_plugin(const std::string& file);

/// The error of this thread's last dlopen() or dlsym().
std::string loader_error();

}  // namespace distdl
