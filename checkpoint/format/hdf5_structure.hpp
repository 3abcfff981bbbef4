// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/checkpoint/format/manifest.hpp>

namespace distdl::checkpoint {

/// What file `index` of a checkpoint holds beyond, or otherwise than, the manifest says, as HDF5 sees it: a dataset
/// that lies elsewhere or is missing, a link out of the file, a filter, an object that nobody knows. Empty if all is
/// well. HDF5 reads the file in a process of its own, for a minute at most, or longer if there are many tensors: a file
/// that was made to break it breaks nothing else. Call it when the file's checksums hold. Throws StorageError (storage)
/// if HDF5 did not come to the end within that time, which says nothing about the file.
std::vector<std::string> structure_problems(const std::filesystem::path& folder, const Manifest& manifest,
                                            std::size_t index, std::chrono::seconds patience = std::chrono::minutes(1));

}  // namespace distdl::checkpoint
