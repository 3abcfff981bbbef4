// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {

/// CRC-32C of all bytes of file `index` that belong to no box: HDF5's own structures and the gaps.
std::uint32_t rest_checksum(OpenFile& file, const Manifest& manifest, std::size_t index);

/// Compares every byte of one open file with the manifest, or only the bytes outside tensors.
std::vector<Finding> verify_file(OpenFile& file, const Manifest& manifest, std::size_t index,
                                 Depth depth = Depth::bytes);
/// Converts exceptions of `reading` about the contents of the disk to findings. Other exceptions pass.
std::vector<Finding> findings_of(const std::function<void()>& reading);

/// A checkpoint folder and its damage. If there are no findings, `manifest` is valid.
struct Verified {
  Manifest manifest;
  std::vector<Finding> findings;
};
/// These three functions throw StorageError only if a file cannot be checked: missing permission, no descriptors, a
/// newer format. A bad sector (EIO) is a finding. This function checks only the manifest.
Verified verify_manifest(FileSystem& files, const Path& folder);
/// Checks one of the files.
std::vector<Finding> verify_listed_file(FileSystem& files, const Path& folder, const Manifest& manifest,
                                        std::size_t index, Depth depth = Depth::bytes);
/// Adds what Depth::structure finds beyond Depth::bytes: in files without findings, and files that are no part of the
/// checkpoint. HDF5 reads in forked processes, so no other thread of this process may run meanwhile.
void verify_structure(const Path& folder, Verified& verified);
/// Checks the manifest and all files.
Verified verify_folder(FileSystem& files, const Path& folder, Depth depth = Depth::bytes);

}  // namespace distdl::checkpoint
