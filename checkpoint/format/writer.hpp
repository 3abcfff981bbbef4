// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <distdl/checkpoint/file_system.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/slice.hpp>

namespace distdl::checkpoint {

/// What one rank contributes to a checkpoint.
struct Contribution {
  Step step;
  std::span<const Slice> slices;
  State state;  ///< goes into this rank's file for readers of HDF5; empty on all ranks but one
};

/// Bytes of all slices.
std::uint64_t bytes_of(std::span<const Slice> slices);
/// Throws StorageError (incompatible) if a slice has an impossible name, box or address.
void check_slices(std::span<const Slice> slices);
/// Throws StorageError (incompatible) naming a key that cannot be one.
void check_state(const State& state);

/// Writes the slices that are not empty to folder/name and syncs it, trying again with a new file after an I/O error.
/// Returns a manifest of this one file, or of none if there was nothing to write. Throws StorageError naming the file.
Manifest write_data_file(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                         const Contribution& contribution, const Options& options);

}  // namespace distdl::checkpoint
