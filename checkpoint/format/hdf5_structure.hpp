// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/checkpoint/format/manifest.hpp>

namespace distdl::checkpoint {

/// The differences between file `index` of a checkpoint, as HDF5 reads it, and the manifest: a dataset that is missing
/// or has another offset, a link out of the file, a filter, an object that is not listed. Empty if there are none. HDF5
/// reads the file in a separate process, so a malicious file cannot harm the caller. The process may run for a minute,
/// or longer if there are many tensors. Call it after the file's checksums were verified. Throws StorageError (storage)
/// if HDF5 does not finish in time, which says nothing about the file.
std::vector<std::string> structure_problems(const std::filesystem::path& folder, const Manifest& manifest,
                                            std::size_t index, std::chrono::seconds patience = std::chrono::minutes(1));

}  // namespace distdl::checkpoint
