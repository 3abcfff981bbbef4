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

// For tools; none of these writes anything.

/// Committed checkpoints under `root`, oldest first, as far as their manifests can be read.
std::vector<Summary> list(const std::filesystem::path& root);
/// The folder itself if it is one checkpoint (step-...), or of a root its newest, whatever state that is in.
/// Throws StorageError: incomplete if there is none.
std::filesystem::path checkpoint_in(const std::filesystem::path& folder);
/// The checkpoint in checkpoint_in(folder). Throws StorageError as far as its manifest cannot be used.
Summary open(const std::filesystem::path& folder);

struct Finding {
  ExitCode kind = ExitCode::corrupt;                 ///< corrupt, incomplete or incompatible
  std::string file, tensor, message;                 ///< tensor: empty if the damage lies outside of tensors
  std::optional<std::uint64_t> block{};              ///< of the tensor's box in that file, from 0
  std::optional<std::uint32_t> expected{}, found{};  ///< checksums
};
enum class Depth {
  sizes,     ///< the manifest's own checksum and sense, and that its files are there with their sizes
  frame,     ///< also the bytes of its files that belong to no tensor
  bytes,     ///< also every byte of every file
  structure  ///< also that HDF5 finds in the files what the manifest says and nothing else, and no other file is there
};
/// Checks one checkpoint folder; empty if all is well.
/// Throws StorageError (storage) if a file cannot be read for lack of permission.
std::vector<Finding> verify(const std::filesystem::path& folder, Depth depth = Depth::bytes);
/// SHA-256 over name, type, shape and bytes of all tensors in name order; independent of how files are cut.
/// Verifies every block's checksum on the way. Throws StorageError (corrupt, incomplete).
std::string digest(const Summary& checkpoint);

}  // namespace distdl::checkpoint
