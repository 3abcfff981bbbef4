// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {

/// The slices and the state that one rank contributes to a checkpoint.
struct Contribution {
  Step step;
  std::span<const Slice> slices;
  State state;  ///< stored in this rank's file for readers of HDF5; empty on all ranks but one
};

/// The bytes of all slices.
std::uint64_t bytes_of(std::span<const Slice> slices);
/// Throws StorageError (incompatible) if a slice has an impossible name, box or address.
void check_slices(std::span<const Slice> slices);
/// Throws StorageError (incompatible) that names an invalid key.
void check_state(const State& state);

/// Writes the slices that are not empty to folder/name and syncs it. After an I/O error it tries again with a new file.
/// Returns a manifest of this file, or of no file if there was nothing to write. Throws StorageError that names the
/// file.
Manifest write_data_file(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                         const Contribution& contribution, const Options& options);

}  // namespace distdl::checkpoint
