// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/checkpoint/manifest.hpp>

namespace distdl::checkpoint {

/// What file `index` of a checkpoint holds beyond, or otherwise than, the manifest says, as HDF5 sees it: a dataset
/// that lies elsewhere or is missing, a link out of the file, a filter, an object that nobody knows. Empty if all is
/// well. HDF5 reads the file in a process of its own, for a minute at most: a file that was made to break it breaks
/// nothing else. Call it when the file's checksums hold.
std::vector<std::string> structure_problems(const std::filesystem::path& folder, const Manifest& manifest,
                                            std::size_t index);

}  // namespace distdl::checkpoint
