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
  /// Something of another kind (st_mode) has the name of what was expected. EINVAL is its number.
  FileError(const Path& file, mode_t mode, const char* expected);
  int number() const noexcept { return number_; }

 private:
  int number_;
};

/// What transfers past the page cache want, with disks and file systems as they are.
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
  /// How many bytes one call wrote: for a file past the cache, where fewer may not be followed by the rest. 0 where the
  /// file system refuses to write these so.
  std::size_t write_some(std::span<const std::byte> bytes, std::uint64_t offset);
  /// For a file past the cache: one call, which may bring less than `bytes` where the file ends. False if it brought
  /// less than the first `needed` of them, or the file system refuses to read these so.
  bool read_some(std::span<std::byte> bytes, std::size_t needed, std::uint64_t offset);
  /// Throws StorageError (corrupt) if the file ends before.
  void read_at(std::span<std::byte> bytes, std::uint64_t offset);
  /// Reserves disk space for a part of the file, where the file system can.
  void reserve(std::uint64_t offset, std::uint64_t bytes);
  void sync();
  /// Forgets what the page cache holds of it, so that reading shows what the disk holds. A hint only.
  void drop_cache() const;
  void close();
  std::uint64_t size() const noexcept { return size_; }  ///< when it was opened
  /// Whether it is this user's, and closed to others.
  bool is_private() const noexcept { return private_; }
  const Path& path() const noexcept { return path_; }
  /// The file once more, to be read or written past the page cache; nothing if its file system cannot do that.
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
/// Where a folder is that a user named, who may have named it by a link: see FileSystem. It need not be there yet.
Path resolved(const Path& folder);
/// Unlike std::filesystem::exists, takes only "there is none" for absence: throws FileError where it cannot be told.
bool is_there(const Path& path);
/// Deletes what it can of a tree; false, with the first cause in errno, if something is left. Of a link only the link
/// goes, wherever it is.
bool remove_tree(FileSystem& files, const Path& folder) noexcept;
/// The whole file; nothing if there is none. Throws StorageError (corrupt) if it is longer than `limit`.
std::optional<std::string> read_text(FileSystem& files, const Path& file, std::uint64_t limit);
/// Creates a file with this text, and syncs it; the caller syncs the folder.
void create_text(FileSystem& files, const Path& file, const std::string& text);
/// Throws FileError if something has the name that is neither a file nor a link: a rename would take it away.
void check_replaceable(const Path& file);
/// Replaces a file, or a link of its name, by a file with this text: after a crash it holds either the old or the new
/// text.
void replace_text(FileSystem& files, const Path& file, const std::string& text);
/// Bytes that may still be written; nothing if the file system does not tell.
std::optional<std::uint64_t> free_bytes(FileSystem& files, const Path& folder);
/// `bytes` random bytes as hexadecimal digits, for names that nobody else uses.
std::string random_hex(std::size_t bytes);

}  // namespace distdl::checkpoint
