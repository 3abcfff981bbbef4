// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {

/// Parses the name of a snapshot file, which may be any bytes. Returns nothing unless it is a complete name of a buffer
/// of this run.
std::optional<SnapshotLabel> parse_disk_snapshot_name(std::string_view name, const std::string& run);

/// The name of a snapshot file without the random digits at its end.
std::string disk_snapshot_name(const SnapshotLabel& label, const std::string& run);

/// Snapshot buffers as files of mode 0600 in a folder of a node's own disk. Files of other users are ignored. The names
/// hold the label: "distdl.slot-<uid>-<run>-<rank>-<world>-<start>-<its identity>-<step>-<sequence>-<random>".
class DiskSnapshots {
 public:
  /// Creates the folder if it is missing.
  DiskSnapshots(FileSystem& files, const std::filesystem::path& folder, const std::string& run);

  /// Writes and syncs a buffer under a new name. After a crash the file is complete or absent. Throws StorageError.
  std::string write(std::span<const std::byte> buffer);
  struct Entry {
    std::string name;
    SnapshotLabel label;
    std::size_t bytes = 0;
  };
  /// The snapshot files of the run.
  std::vector<Entry> list() const { return list(folder_, run_); }
  /// The snapshot files of a run in a folder that need not exist.
  static std::vector<Entry> list(const std::filesystem::path& folder, const std::string& run);
  /// Reads a file into private memory; open_snapshot() and verify() check the bytes. Throws StorageError if the file
  /// cannot be read, belongs to another user, or is accessible to others.
  SnapshotMemory load(const std::string& name) const;
  void remove(const std::string& name) noexcept;
  /// Removes files that a crash left incomplete, and files of this user's other runs that are older than two weeks. No
  /// process of this run may write during the call.
  void clear_leftovers() noexcept;

 private:
  FileSystem& files_;
  std::filesystem::path folder_;
  std::string run_, prefix_;
};

}  // namespace distdl::checkpoint
