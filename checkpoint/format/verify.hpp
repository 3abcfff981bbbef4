// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>

namespace distdl::checkpoint {

/// CRC-32C of all bytes of file `index` that belong to no box: HDF5's own structures and the gaps.
std::uint32_t rest_checksum(OpenFile& file, const Manifest& manifest, std::size_t index);

/// Compares every byte of one open file with the manifest, or those outside of tensors.
std::vector<Finding> verify_file(OpenFile& file, const Manifest& manifest, std::size_t index,
                                 Depth depth = Depth::bytes);
/// What a reading throws about the disk's content becomes findings; the rest passes.
std::vector<Finding> findings_of(const std::function<void()>& reading);

/// A checkpoint folder and what is wrong with it; without findings, `manifest` is the truth about it.
struct Verified {
  Manifest manifest;
  std::vector<Finding> findings;
};
/// These three throw StorageError only if a file cannot be checked: no permission, no descriptors, a newer format. A
/// bad sector (EIO) is a finding. This one checks the manifest alone.
Verified verify_manifest(FileSystem& files, const Path& folder);
/// At one of its files.
std::vector<Finding> verify_listed_file(FileSystem& files, const Path& folder, const Manifest& manifest,
                                        std::size_t index, Depth depth = Depth::bytes);
/// At all.
Verified verify_folder(FileSystem& files, const Path& folder, Depth depth = Depth::bytes);

}  // namespace distdl::checkpoint
