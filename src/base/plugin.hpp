// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace distdl {

/// Where a plug-in of distdl, "libdistdl_slurm.so", may lie, best first: in the folders of DISTDL_PLUGIN_PATH
/// (separated by colons) alone where that is set, else in distdl/ beside this shared library or in ../lib/ as seen from
/// the program or library that holds this code, and where it was installed.
std::vector<std::filesystem::path> plugin_candidates(const std::string& file);

/// The first of them that is a file; nothing if none is.
std::optional<std::filesystem::path> find_plugin(const std::string& file);

/// The error of this thread's last dlopen or dlsym.
std::string loader_error();

}  // namespace distdl
