// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/kernels/cuda/plugin.hpp>

namespace distdl::kernels::cuda {

/// Throws BackendUnavailable if there is no NVIDIA driver. This is checked first, because nothing can be loaded without
/// a driver.
void require_driver();

/// The path of the plug-in. Throws BackendUnavailable that names the searched places if it does not exist.
std::filesystem::path own_plugin();

/// Loads the plug-in permanently. Throws BackendUnavailable if a library that it needs is missing, and ConfigError if
/// the file is not the plug-in or was built with another distdl.
const Plugin& load_plugin(const std::filesystem::path& file);

}  // namespace distdl::kernels::cuda
