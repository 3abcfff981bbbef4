// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/kernels/cuda/plugin.hpp>

namespace distdl::kernels::cuda {

/// Throws BackendUnavailable if there is no NVIDIA driver here: asked first, because without one nothing else is worth
/// loading.
void require_driver();

/// Where the plug-in lies. Throws BackendUnavailable, and names the places that were looked at, if it is nowhere.
std::filesystem::path own_plugin();

/// Loads the plug-in, for good. Throws BackendUnavailable if a library that it needs is missing, ConfigError if the
/// file is something else or was built with another distdl.
const Plugin& load_plugin(const std::filesystem::path& file);

}  // namespace distdl::kernels::cuda
