// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace distdl {

/// The folder for short-lived files: TMPDIR. Slurm passes the variable from the login node to nodes that may lack the
/// folder; /tmp is then used, with a warning.
std::filesystem::path temporary_folder();

}  // namespace distdl
