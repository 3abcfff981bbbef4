// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/exit_codes.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {

// Functions for tools. None of them writes anything.

/// The committed checkpoints under `root` with a readable manifest, oldest first.
std::vector<Summary> list(const std::filesystem::path& root);
/// Returns `folder` itself if it is a checkpoint (step-...), else the newest checkpoint in it, intact or not. Throws
/// StorageError: incomplete if there is none.
std::filesystem::path checkpoint_in(const std::filesystem::path& folder);
/// The summary of checkpoint_in(folder). Throws StorageError if its manifest cannot be used.
Summary open(const std::filesystem::path& folder);

struct Finding {
  ExitCode kind = ExitCode::corrupt;                 ///< corrupt, incomplete or incompatible
  std::string file, tensor, message;                 ///< tensor: empty if the damage is outside tensors
  std::optional<std::uint64_t> block{};              ///< number of the block in the tensor's box in that file, from 0
  std::optional<std::uint32_t> expected{}, found{};  ///< checksums
};
enum class Depth {
  sizes,     ///< checksum and consistency of the manifest, existence and sizes of its files
  frame,     ///< also the bytes of its files that belong to no tensor
  bytes,     ///< also all other bytes of every file
  structure  ///< also that HDF5 finds exactly what the manifest lists, and that there are no other files
};
/// Checks one checkpoint folder. The result is empty if nothing is wrong. Throws StorageError (storage) if permission
/// to read a file is missing.
std::vector<Finding> verify(const std::filesystem::path& folder, Depth depth = Depth::bytes);
/// Adds what Depth::structure finds beyond the findings of Depth::bytes. HDF5 reads in forked processes, so no other
/// thread of this process may run meanwhile: a lock that it holds would stay locked in them.
void verify_structure(const std::filesystem::path& folder, std::vector<Finding>& findings);
/// SHA-256 over name, type, shape and bytes of all tensors in name order. It does not depend on how tensors are divided
/// among files. The checksum of every block is verified. Throws StorageError (corrupt, incomplete).
std::string digest(const Summary& checkpoint);

}  // namespace distdl::checkpoint
