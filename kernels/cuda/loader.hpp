// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <distdl/kernels/cuda/plugin.hpp>

namespace distdl::kernels::cuda {

/// Throws ConfigError if there is no NVIDIA driver here: asked first, because without one nothing else is worth
/// loading.
void require_driver();

/// Where the plug-in may lie: DISTDL_PLUGIN_PATH (folders separated by colons) alone where that is set, else beside
/// this program or library, in <prefix>/lib/distdl as seen from there, and where it was installed.
std::vector<std::filesystem::path> plugin_candidates();

/// The first of them that is a file. Throws ConfigError, and names all of them, if none is.
std::filesystem::path find_plugin(const std::vector<std::filesystem::path>& candidates);

/// Loads the plug-in, for good. Throws ConfigError if a library that it needs is missing, or if it was built with
/// another distdl.
const Plugin& load_plugin(const std::filesystem::path& file);

}  // namespace distdl::kernels::cuda
