// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/file_system.hpp>

namespace distdl::checkpoint {

using Path = std::filesystem::path;

/// A system call failed: names the call's purpose, the file and errno.
class FileError : public StorageError {
 public:
  FileError(const std::string& purpose, const Path& file, int number);
  /// The file is of another kind (st_mode) than expected. number() is EINVAL.
  FileError(const Path& file, mode_t mode, const char* expected);
  int number() const noexcept { return number_; }

 private:
  int number_;
};

/// Alignment for transfers past the page cache, sufficient for common disks and file systems.
inline constexpr std::size_t kDirectAlignment = 4096;
inline constexpr std::size_t kWorthDirect = 64 << 10;  ///< bytes; fewer go through the cache

/// An open regular file. Loops over EINTR and short transfers; every failure is a FileError naming the file.
class OpenFile {
 public:
  enum class Mode { read, create, create_private, write, write_past_cache, read_past_cache };
  /// `create` makes a new file and fails if there is one, `create_private` one that other users cannot open; `write`
  /// opens an existing one. Links and devices are refused.
  /// `write_past_cache`, `read_past_cache` (O_DIRECT): addresses, offsets and sizes must be multiples of
  /// kDirectAlignment.
  OpenFile(FileSystem& files, Path path, Mode mode);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile();

  void write_at(std::span<const std::byte> bytes, std::uint64_t offset);
  /// For a file past the cache: returns how many bytes one call wrote, since the rest may not be aligned. 0 if the file
  /// system refuses.
  std::size_t write_some(std::span<const std::byte> bytes, std::uint64_t offset);
  /// For a file past the cache: one call, which may read less than `bytes` at the end of the file. False if it read
  /// less than the first `needed` bytes, or if the file system refuses.
  bool read_some(std::span<std::byte> bytes, std::size_t needed, std::uint64_t offset);
  /// Throws StorageError (corrupt) if the file ends before.
  void read_at(std::span<std::byte> bytes, std::uint64_t offset);
  /// Reserves disk space for a part of the file, where the file system can.
  void reserve(std::uint64_t offset, std::uint64_t bytes);
  void sync();
  /// Drops the file from the page cache, so that a read shows what the disk holds. A hint only.
  void drop_cache() const;
  void close();
  std::uint64_t size() const noexcept { return size_; }  ///< when it was opened
  /// Whether the file belongs to this user and others have no access.
  bool is_private() const noexcept { return private_; }
  const Path& path() const noexcept { return path_; }
  /// Opens the file for transfers past the page cache; nothing if its file system cannot do that.
  static std::optional<OpenFile> past_cache(FileSystem& files, const Path& path, Mode mode);

 private:
  FileSystem& files_;
  Path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool private_ = false;
};

/// Makes the entries of a folder (new, renamed, deleted files) survive a power loss.
void sync_folder(FileSystem& files, const Path& folder);
void make_folder(FileSystem& files, const Path& folder);
/// Makes it and its parents where they are missing.
void make_folders(FileSystem& files, const Path& folder);
/// Moves a folder to a name that must be free. Throws FileError (EEXIST, ENOTEMPTY) otherwise.
void move_folder(FileSystem& files, const Path& from, const Path& to);
/// Swaps two folders in one step; false if the file system cannot do that.
bool swap_folders(FileSystem& files, const Path& one, const Path& other);
/// The names of all entries of a folder that is no link. Throws FileError.
std::vector<std::string> names_in(const Path& folder);
/// Resolves the links in the path of a folder that a user has named, see FileSystem. The folder need not exist.
Path resolved(const Path& folder);
/// Whether a file exists. Unlike std::filesystem::exists(), throws FileError on errors other than "no such file".
bool is_there(const Path& path);
/// Deletes as much of a tree as it can. False, with the first cause in errno, if something is left. Links are removed,
/// never followed.
bool remove_tree(FileSystem& files, const Path& folder) noexcept;
/// The whole file; nothing if there is none. Throws StorageError (corrupt) if it is longer than `limit`.
std::optional<std::string> read_text(FileSystem& files, const Path& file, std::uint64_t limit);
/// Creates a file with this text, and syncs it; the caller syncs the folder.
void create_text(FileSystem& files, const Path& file, const std::string& text);
/// Throws FileError if the name belongs to something other than a file or a link, which a rename would replace.
void check_replaceable(const Path& file);
/// Replaces a file, or a link of its name, by a file with this text: after a crash it holds either the old or the new
/// text.
void replace_text(FileSystem& files, const Path& file, const std::string& text);
/// Bytes that may still be written; nothing if the file system does not tell.
std::optional<std::uint64_t> free_bytes(FileSystem& files, const Path& folder);

}  // namespace distdl::checkpoint
