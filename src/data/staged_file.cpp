// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/data/staged_file.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

void sync_to_disk(const fs::path& path, int flags) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!file || ::fsync(file.get()) != 0)
    throw StorageError(fmt::format("cannot flush \"{}\" to disk: {}", path.string(), errno_text(errno)));
}

void refuse_existing(const fs::path& target) {
  std::error_code ignored;
  require(!fs::exists(fs::symlink_status(target, ignored)),
          "\"{}\" already exists; choose another name, or replace it with --force", target.string());
}

/// Refuses a target that a rename may not replace: only a file, or a link, which may lead nowhere.
void refuse_what_is_no_file(const fs::path& target) {
  struct stat status {};
  if (::lstat(target.c_str(), &status) != 0) return;
  require<StorageError>(S_ISREG(status.st_mode) || S_ISLNK(status.st_mode),
                        "\"{}\" is {}, which no file may replace; choose another name", target.string(),
                        kind_of(status.st_mode));
}

/// False with errno set if it failed.
bool rename_file(const fs::path& from, const fs::path& to, Overwrite overwrite) {
  FileSystem& files = real_file_system();
  if (overwrite == Overwrite::refuse) {
    if (files.rename(from.c_str(), to.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno == EEXIST) refuse_existing(to);
    if (errno != EINVAL && errno != ENOSYS) return false;
    refuse_existing(to);  // the file system cannot rename without replacing: the next best
  }
  return files.rename(from.c_str(), to.c_str(), 0) == 0;
}
}  // namespace

StagedFile::StagedFile(fs::path target, Overwrite overwrite) : target_(std::move(target)), overwrite_(overwrite) {
  require(target_.has_filename(), "\"{}\" is not the name of a file to write", target_.string());
  if (overwrite_ == Overwrite::refuse) refuse_existing(target_);
  refuse_what_is_no_file(target_);
  std::error_code ignored;
  require<StorageError>(fs::is_directory(folder_of(target_), ignored),
                        "cannot create \"{}\": there is no folder \"{}\"; create it first", target_.string(),
                        folder_of(target_).string());
  temporary_ =
      resolved_place(target_).parent_path() / fmt::format(".{}.partial-{}", target_.filename().string(), ::getpid());
  remove_file(temporary_);  // left by a killed process that had our number
  unfinished_.emplace(temporary_);
}

StagedFile::~StagedFile() {
  if (!published_) remove_file(temporary_);
}

void StagedFile::publish() {
  sync_to_disk(temporary_, 0);
  if (!rename_file(temporary_, resolved_place(target_), overwrite_))
    throw StorageError(
        fmt::format("cannot rename \"{}\" to \"{}\": {}", temporary_.string(), target_.string(), errno_text(errno)));
  published_ = true;
  unfinished_.reset();
  sync_to_disk(folder_of(target_), O_DIRECTORY);
}

}  // namespace distdl::data
