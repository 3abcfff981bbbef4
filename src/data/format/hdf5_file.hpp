// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/hdf5/objects/hdf5_handles.hpp>

/// Files of data sets. All functions of the files hdf5_* take the lock of HDF5 themselves. What writes throws
/// StorageError storage, what reads StorageError corrupt, unless said otherwise.
namespace distdl::data {

/// A new file whose metadata carries HDF5's own checksums and no time stamps: the same content gives the same bytes.
hdf5::File create_hdf5_file(const std::filesystem::path& path);
/// HDF5 keeps what it has read of a file's metadata as long as a handle of this process to the same inode is open.
enum class Metadata { shared, read_anew };
/// Read-only and without file locks. Throws StorageError incomplete (no such file), incompatible (not HDF5), corrupt.
hdf5::File open_hdf5_file(const std::filesystem::path& path, Metadata metadata = Metadata::shared);
/// Writes out what HDF5 still holds. Close all datasets first.
void close_and_check(hdf5::File file);

}  // namespace distdl::data
