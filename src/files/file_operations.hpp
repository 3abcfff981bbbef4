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
#include <distdl/files/file_system.hpp>

namespace distdl {

using Path = std::filesystem::path;

/// A system call failed. The message names the purpose of the call, the file and errno.
class FileError : public StorageError {
 public:
  FileError(const std::string& purpose, const Path& file, int number);
  /// The file has another kind (st_mode) than expected. number() is EINVAL.
  FileError(const Path& file, mode_t mode, const char* expected);
  int number() const noexcept { return number_; }

 private:
  int number_;
};

/// Alignment for transfers past the page cache, sufficient for common disks and file systems.
inline constexpr std::size_t kDirectAlignment = 4096;
inline constexpr std::size_t kWorthDirect = 64 << 10;  ///< in bytes; shorter transfers use the page cache

/// An open regular file. All functions repeat calls after EINTR and short transfers. Every failure is a FileError that
/// names the file.
class OpenFile {
 public:
  enum class Mode { read, create, create_private, write, write_past_cache, read_past_cache };
  /// `create` makes a new file and fails if it exists. `create_private` makes a file that other users cannot open.
  /// `write` opens an existing file. Links and devices are refused. In the modes `write_past_cache` and
  /// `read_past_cache` (O_DIRECT), addresses, offsets and sizes must be multiples of kDirectAlignment.
  OpenFile(FileSystem& files, Path path, Mode mode);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile();

  void write_at(std::span<const std::byte> bytes, std::uint64_t offset);
  /// For a file past the page cache. Returns the number of bytes that one call wrote, because the rest may not be
  /// aligned. Returns 0 if the file system refuses.
  std::size_t write_some(std::span<const std::byte> bytes, std::uint64_t offset);
  /// For a file past the page cache. Makes one call, which may read less than `bytes` at the end of the file. Returns
  /// false if it read fewer than the first `needed` bytes, or if the file system refuses.
  bool read_some(std::span<std::byte> bytes, std::size_t needed, std::uint64_t offset);
  /// Throws StorageError (corrupt) if the file is shorter.
  void read_at(std::span<std::byte> bytes, std::uint64_t offset);
  /// Reserves disk space for a part of the file if the file system supports that.
  void reserve(std::uint64_t offset, std::uint64_t bytes);
  void sync();
  /// Drops the file from the page cache, so that a read returns what is on the disk. This is only a hint.
  void drop_cache() const;
  void close();
  std::uint64_t size() const noexcept { return size_; }  ///< size at the time of opening
  /// Whether the file belongs to this user and others have no access.
  bool is_private() const noexcept { return private_; }
  const Path& path() const noexcept { return path_; }
  /// Opens the file for transfers past the page cache. Returns nothing if its file system does not support them.
  static std::optional<OpenFile> past_cache(FileSystem& files, const Path& path, Mode mode);

 private:
  FileSystem& files_;
  Path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool private_ = false;
};

/// Makes the entries of a folder (new, renamed and deleted files) durable.
void sync_folder(FileSystem& files, const Path& folder);
void make_folder(FileSystem& files, const Path& folder);
/// Creates the folder and its parents if they are missing.
void make_folders(FileSystem& files, const Path& folder);
/// Moves a folder to a name that must be free. Throws FileError (EEXIST, ENOTEMPTY) otherwise.
void move_folder(FileSystem& files, const Path& from, const Path& to);
/// Swaps two folders in one step. Returns false if the file system does not support that.
bool swap_folders(FileSystem& files, const Path& one, const Path& other);
/// The names of all entries of a folder. The folder must not be a link. Throws FileError.
std::vector<std::string> names_in(const Path& folder);
/// Takes the open folder over.
std::vector<std::string> names_in(FileDescriptor descriptor, const Path& folder);
/// Resolves the links in the path of a folder that a user has named, see FileSystem. The folder need not exist.
Path resolved(const Path& folder);
/// A file that a user has named: its folder is resolved, the file itself is not.
Path resolved_place(const Path& file);
/// Whether a file exists. Unlike std::filesystem::exists(), throws FileError on errors other than "no such file".
bool is_there(const Path& path);
/// Deletes as much of a tree as possible. If something remains, returns false with the first cause in errno. Links are
/// removed, never followed.
bool remove_tree(FileSystem& files, const Path& folder) noexcept;
/// The whole file. Returns nothing if it does not exist. Throws StorageError (corrupt) if it is longer than `limit`.
std::optional<std::string> read_text(FileSystem& files, const Path& file, std::uint64_t limit);
/// Creates a file with this text and syncs it. The caller syncs the folder.
void create_text(FileSystem& files, const Path& file, const std::string& text,
                 OpenFile::Mode mode = OpenFile::Mode::create);
/// Creates a file with this text, which has its name only when it is whole. Returns false if there is one of this name.
/// Several processes may try: one of them succeeds.
bool create_whole(const Path& file, const std::string& text, OpenFile::Mode mode = OpenFile::Mode::create);
/// Creates a file that must not exist, to read and write it.
FileDescriptor create_file(const Path& file);
/// Removes a file or a link. Returns false with errno set on failure, also if there is none.
bool remove_file(const Path& file) noexcept;
/// Throws FileError if the name belongs to something other than a file or a link, which a rename would replace.
void check_replaceable(const Path& file);
/// Replaces a file, or a link of this name, by a file with this text. After a crash the file has either the old or the
/// new text.
void replace_text(FileSystem& files, const Path& file, const std::string& text);
/// The free bytes for this user. Returns nothing if the file system does not report them.
std::optional<std::uint64_t> free_bytes(FileSystem& files, const Path& folder);

}  // namespace distdl
