// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace distdl {

/// Where short-lived files go: TMPDIR. Slurm carries the variable from the login node to nodes that may lack the
/// folder: then a warning says so, and /tmp is taken.
std::filesystem::path temporary_folder();

}  // namespace distdl
