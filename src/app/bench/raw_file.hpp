// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

#include <distdl/comm/communicator.hpp>
#include <distdl/files/own_folder.hpp>

namespace distdl::app {

/// The speed of the disk itself, for comparison: one file, one thread, calls of 4 MiB.
class RawFile {
 public:
  enum class Cache { used, passed };
  explicit RawFile(std::filesystem::path path) : path_(std::move(path)) {}
  const std::filesystem::path& path() const { return path_; }
  /// Writes and syncs a new file. Past the page cache, `bytes` are first copied to aligned memory in pieces. Throws
  /// StorageError.
  void write(std::span<const std::byte> bytes, Cache cache) const;
  void read(std::span<std::byte> bytes) const;
  void remove() const;

 private:
  std::filesystem::path path_;
};

/// Drops a synced file from the page cache.
void drop_cache(const std::filesystem::path& path);

/// Collective. A new folder in `parent`, the same for all ranks. Rank 0 removes it at the end.
class BenchFolder {
 public:
  BenchFolder(const std::filesystem::path& parent, comm::Communicator& communicator);
  ~BenchFolder() = default;
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<ScratchFolder> mine_;
  std::filesystem::path path_;
};

}  // namespace distdl::app
