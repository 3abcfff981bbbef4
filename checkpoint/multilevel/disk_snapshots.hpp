// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/checkpoint/file_system.hpp>
#include <distdl/checkpoint/multilevel/snapshot_buffer.hpp>
#include <distdl/checkpoint/multilevel/snapshot_memory.hpp>

namespace distdl::checkpoint {

/// What the name of such a file says that it holds, of any bytes; nothing if it is no buffer of this run, or not whole.
std::optional<SnapshotLabel> parse_disk_snapshot_name(std::string_view name, const std::string& run);

/// The name of such a file, but for the random digits at its end.
std::string disk_snapshot_name(const SnapshotLabel& label, const std::string& run);

/// Slots as files, mode 0600, in a folder of a disk that belongs to one node; those of other users do not count. Their
/// names tell what they hold: "distdl.slot-<uid>-<run>-<rank>-<world>-<start>-<its
/// identity>-<step>-<sequence>-<random>".
class DiskSnapshots {
 public:
  /// Makes the folder where it is missing.
  DiskSnapshots(FileSystem& files, const std::filesystem::path& folder, const std::string& run);

  /// Writes and syncs a buffer under a new name; a crash leaves all or nothing of it. Throws StorageError.
  std::string write(std::span<const std::byte> buffer);
  struct Entry {
    std::string name;
    SnapshotLabel label;
    std::size_t bytes = 0;
  };
  /// The run's buffers.
  std::vector<Entry> list() const { return list(folder_, run_); }
  /// The same of a folder that may not be there.
  static std::vector<Entry> list(const std::filesystem::path& folder, const std::string& run);
  /// The bytes of one, in memory of this process; whether they are whole is for open_snapshot() and verify() to say.
  /// Throws StorageError, also unless the file is this user's and closed to others.
  SnapshotMemory load(const std::string& name) const;
  void remove(const std::string& name) noexcept;
  /// Removes what a crash left half written, and what other runs of this user have left for two weeks. Nobody of this
  /// run may be writing.
  void clear_leftovers() noexcept;

 private:
  FileSystem& files_;
  std::filesystem::path folder_;
  std::string run_, prefix_;
};

}  // namespace distdl::checkpoint
