// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/handles.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>

namespace distdl::checkpoint {
namespace {

/// Repeats a call that a signal interrupted; gives up on a file system that answers EINTR forever.
template <class Call>
auto retry_interrupted(Call&& call) {
  auto result = call();
  for (int tries = 1; tries < 100 && result < 0 && errno == EINTR; ++tries) result = call();
  return result;
}

bool cannot(int number) {
  return number == EINVAL || number == ENOSYS || number == EOPNOTSUPP;
}

int flags_of(OpenFile::Mode mode) {
  // O_NONBLOCK: if the file is a pipe, opening it must not wait for its other end.
  int common = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  switch (mode) {
    case OpenFile::Mode::read:
      return common | O_RDONLY;
    case OpenFile::Mode::create:
    case OpenFile::Mode::create_private:
      return common | O_RDWR | O_CREAT | O_EXCL;
    case OpenFile::Mode::write:
      return common | O_RDWR;
    case OpenFile::Mode::write_past_cache:
      return common | O_WRONLY | O_DIRECT;
    case OpenFile::Mode::read_past_cache:
      return common | O_RDONLY | O_DIRECT;
  }
  return common;
}

void close_entries(DIR* entries) noexcept {
  ::closedir(entries);
}
using OpenFolder = UniqueHandle<DIR*, &close_entries>;

}  // namespace

FileError::FileError(const std::string& purpose, const Path& file, int number)
    : StorageError(fmt::format("cannot {} \"{}\": {}{}", purpose, file.string(), errno_text(number),
                               number == ELOOP ? "; it is a link, which is not followed: remove it" : ""),
                   is_shortage(number) ? ExitCode::config : ExitCode::storage),
      number_(number) {}

FileError::FileError(const Path& file, mode_t mode, const char* expected)
    : StorageError(fmt::format("\"{}\" is {}, but {} was expected: {}", file.string(), kind_of(mode), expected,
                               S_ISCHR(mode) || S_ISBLK(mode) ? "name another one" : "remove it")),
      number_(EINVAL) {}

OpenFile::OpenFile(FileSystem& files, Path path, Mode mode) : files_(files), path_(std::move(path)) {
  const mode_t access = mode == Mode::create_private ? 0600 : 0644;
  descriptor_ = retry_interrupted([&] { return files_.open(path_.c_str(), flags_of(mode), access); });
  const bool creates = mode == Mode::create || mode == Mode::create_private;
  if (descriptor_ < 0) throw FileError(creates ? "create" : "open", path_, errno);
  struct stat status {};
  const int number = ::fstat(descriptor_, &status) != 0 ? errno : 0;
  if (number != 0 || !S_ISREG(status.st_mode)) {
    files_.close(std::exchange(descriptor_, -1));
    if (number != 0) throw FileError("look at", path_, number);
    throw FileError(path_, status.st_mode, "a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  private_ = status.st_uid == ::geteuid() && (status.st_mode & 0077) == 0;
}

std::optional<OpenFile> OpenFile::past_cache(FileSystem& files, const Path& path, Mode mode) try {
  return OpenFile(files, path, mode);
} catch (const FileError& error) {
  if (cannot(error.number())) return std::nullopt;
  throw;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : files_(other.files_),
      path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      private_(other.private_) {}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) files_.close(descriptor_);
}

void OpenFile::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    ssize_t n = retry_interrupted(
        [&] { return files_.pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) throw FileError("write", path_, errno);
    if (n == 0) throw FileError("write", path_, ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

std::size_t OpenFile::write_some(std::span<const std::byte> bytes, std::uint64_t offset) {
  ssize_t n = retry_interrupted(
      [&] { return files_.pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
  if (n < 0 && cannot(errno)) return 0;
  if (n < 0) throw FileError("write", path_, errno);
  return static_cast<std::size_t>(n);
}

bool OpenFile::read_some(std::span<std::byte> bytes, std::size_t needed, std::uint64_t offset) {
  ssize_t n = retry_interrupted(
      [&] { return files_.pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
  if (n < 0 && cannot(errno)) return false;
  if (n < 0) throw FileError("read", path_, errno);
  return static_cast<std::size_t>(n) >= needed;
}

void OpenFile::read_at(std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    ssize_t n = retry_interrupted(
        [&] { return files_.pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) throw FileError("read", path_, errno);
    if (n == 0)
      throw StorageError(fmt::format("\"{}\" ends at byte {}, but more bytes were expected", path_.string(), offset),
                         ExitCode::corrupt);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void OpenFile::reserve(std::uint64_t offset, std::uint64_t bytes) {
  int rc = retry_interrupted(
      [&] { return files_.fallocate(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes)); });
  if (rc != 0 && !cannot(errno)) throw FileError(fmt::format("reserve {} bytes for", bytes), path_, errno);
}

void OpenFile::sync() {
  // After any other failure the kernel may have dropped the dirty pages: the caller must write a new file instead.
  if (retry_interrupted([&] { return files_.fsync(descriptor_); }) != 0) throw FileError("sync", path_, errno);
}

void OpenFile::drop_cache() const {
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
}

void OpenFile::close() {
  // Linux releases the descriptor even if close is interrupted.
  if (files_.close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) throw FileError("close", path_, errno);
}

void sync_folder(FileSystem& files, const Path& folder) {
  int descriptor = retry_interrupted([&] { return files.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (descriptor < 0) throw FileError("open folder", folder, errno);
  int rc = retry_interrupted([&] { return files.fsync(descriptor); });
  int number = errno;
  files.close(descriptor);
  if (rc != 0) throw FileError("sync folder", folder, number);
}

void make_folder(FileSystem& files, const Path& folder) {
  if (files.mkdir(folder.c_str(), 0755) != 0) throw FileError("make folder", folder, errno);
}

void make_folders(FileSystem& files, const Path& folder) {
  std::error_code ignored;  // mkdir below reports the real cause
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return;
  Path parent = folder.has_parent_path() ? folder.parent_path() : Path(".");
  if (parent != folder) make_folders(files, parent);
  if (files.mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) throw FileError("make folder", folder, errno);
  sync_folder(files, parent);
}

void move_folder(FileSystem& files, const Path& from, const Path& to) {
  if (files.rename(from.c_str(), to.c_str(), RENAME_NOREPLACE) == 0) return;
  // Where the flag is unknown (NFS), plain rename will do: it does not replace a folder that holds anything.
  if (cannot(errno) && files.rename(from.c_str(), to.c_str(), 0) == 0) return;
  throw FileError(fmt::format("move \"{}\" to", from.string()), to, errno);
}

bool swap_folders(FileSystem& files, const Path& one, const Path& other) {
  if (files.rename(one.c_str(), other.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (cannot(errno)) return false;
  throw FileError(fmt::format("swap \"{}\" with", one.string()), other, errno);
}

bool remove_tree(FileSystem& files, const Path& folder) noexcept try {
  // Two may delete the same tree: a run and a tool.
  auto is_gone = [](int rc) { return rc == 0 || errno == ENOENT; };
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return errno == ENOENT;
  if (!S_ISDIR(status.st_mode)) return is_gone(files.unlink(folder.c_str()));
  int cause = 0;
  for (const std::string& name : names_in(folder))
    if (!remove_tree(files, folder / name) && cause == 0) cause = errno;
  if (cause == 0) return is_gone(files.rmdir(folder.c_str()));
  errno = cause;
  return false;
} catch (const FileError& error) {
  errno = error.number();
  return error.number() == ENOENT;
} catch (const std::exception& error) {
  errno = ENOMEM;
  return false;
}

std::vector<std::string> names_in(const Path& folder) {
  FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!descriptor && ::lstat(folder.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
    throw FileError(folder, status.st_mode, "a folder");
  const OpenFolder entries(descriptor ? ::fdopendir(descriptor.get()) : nullptr);
  if (!entries) throw FileError("read the folder", folder, errno);
  static_cast<void>(descriptor.release());  // it is the stream's now
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(entries.get());  // NOLINT(concurrency-mt-unsafe): a stream of its own
    if (!entry && errno != 0) throw FileError("read the folder", folder, errno);
    if (!entry) return names;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

Path resolved(const Path& folder) {
  std::error_code ignored;  // of what cannot be looked at, the first use reports the cause
  const Path path = std::filesystem::weakly_canonical(folder.empty() ? Path(".") : folder, ignored);
  return ignored ? folder : path;
}

bool is_there(const Path& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) throw FileError("look for", path, error.value());
  return there;
}

std::optional<std::string> read_text(FileSystem& files, const Path& file, std::uint64_t limit) try {
  OpenFile in(files, file, OpenFile::Mode::read);
  if (in.size() > limit)
    throw StorageError(
        fmt::format("\"{}\" is {} bytes long, but at most {} were expected", file.string(), in.size(), limit),
        ExitCode::corrupt);
  std::string text(in.size(), '\0');
  in.read_at(std::as_writable_bytes(std::span(text)), 0);
  return text;
} catch (const FileError& error) {
  if (error.number() == ENOENT) return std::nullopt;
  throw;
}

void create_text(FileSystem& files, const Path& file, const std::string& text) {
  OpenFile out(files, file, OpenFile::Mode::create);
  out.write_at(std::as_bytes(std::span(text)), 0);
  out.sync();
  out.close();
}

void check_replaceable(const Path& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
    throw FileError(file, status.st_mode, "a regular file");
}

void replace_text(FileSystem& files, const Path& file, const std::string& text) {
  Path fresh = file.parent_path() / fmt::format(".{}.{}", file.filename().string(), random_hex(8));
  try {
    create_text(files, fresh, text);
    check_replaceable(file);
    if (files.rename(fresh.c_str(), file.c_str(), 0) != 0) throw FileError("replace", file, errno);
  } catch (...) {
    files.unlink(fresh.c_str());
    throw;
  }
  sync_folder(files, file.parent_path());
}

std::optional<std::uint64_t> free_bytes(FileSystem& files, const Path& folder) {
  struct statvfs status {};
  if (retry_interrupted([&] { return files.statvfs(folder.c_str(), &status); }) != 0)
    throw FileError("get the free space of", folder, errno);
  if (status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace distdl::checkpoint
