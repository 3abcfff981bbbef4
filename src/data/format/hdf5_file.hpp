// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/hdf5/objects/hdf5_handles.hpp>

/// Files of data sets. All functions in files hdf5_* take the lock of HDF5 themselves. Functions that write throw
/// StorageError (storage), and those that read throw StorageError (corrupt), unless documented otherwise.
namespace distdl::data {

/// Creates a file whose metadata has HDF5's checksums and no time stamps: equal contents give equal bytes.
hdf5::File create_hdf5_file(const std::filesystem::path& path);
/// HDF5 keeps the metadata that it has read as long as this process has a handle to the same inode.
enum class Metadata { shared, read_anew };
/// Opens a file read-only and without file locks. Throws StorageError: incomplete (no such file), incompatible (not
/// HDF5), or corrupt.
hdf5::File open_hdf5_file(const std::filesystem::path& path, Metadata metadata = Metadata::shared);
/// Writes the data that HDF5 still holds. Close all datasets first.
void close_and_check(hdf5::File file);

}  // namespace distdl::data
