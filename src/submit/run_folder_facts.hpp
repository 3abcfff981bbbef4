// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace distdl::submit {

enum class FolderKind {
  shared,  ///< a network or parallel file system
  memory,  ///< memory of this machine, gone when it restarts
  disk,    ///< a disk of this machine, it seems: the machine may be a server of the others
  unknown,
};

/// Visible properties of a run folder, or of the nearest folder above it that there is.
struct RunFolderFacts {
  std::filesystem::path folder;
  FolderKind kind = FolderKind::unknown;
  std::string file_system = {};  ///< "ext4", "lustre"
  bool is_temporary = false;     ///< below /tmp, /dev/shm or the like, which nodes have of their own
  bool is_world_readable = false;
  std::optional<std::uint64_t> free_bytes = {};
  std::optional<std::uint64_t> checkpoint_bytes = {};  ///< size of one checkpoint; nothing: not known
  bool checkpoints_are_there = false;                  ///< room was made for them already
};

/// Inspects a run folder. Without checkpoint_bytes.
RunFolderFacts look_at_run_folder(const std::filesystem::path& folder);

/// The name of a file system by its number of statfs(2), and what it is.
FolderKind kind_of_file_system(long magic, std::string& name);

}  // namespace distdl::submit
