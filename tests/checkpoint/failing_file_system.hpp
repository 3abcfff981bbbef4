// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <distdl/checkpoint/file_system.hpp>

namespace distdl::checkpoint {

/// Counts the operations that a save does, and does something bad at the n-th, or from the n-th on.
class FailingFileSystem final : public FileSystem {
 public:
  enum class Fault { none, kill, error, short_write, call };
  struct Plan {
    Fault fault = Fault::none;
    int at = -1;                      ///< number of the operation, from 0
    bool persistent = false;          ///< and all later ones
    int number = EIO;                 ///< for Fault::error
    bool old_kernel = false;          ///< renameat2 knows no flags, fallocate does not exist, statvfs tells nothing
    std::function<void()> call = {};  ///< for Fault::call: done just before the operation, which then goes on
  };

  explicit FailingFileSystem(Plan plan) : plan_(std::move(plan)) {}
  int operations() const { return count_; }
  /// Whether the fault was met.
  bool struck() const { return struck_; }

  int open(const char* path, int flags, mode_t mode) override {
    return strikes() ? -1 : FileSystem::open(path, flags, mode);
  }
  int close(int descriptor) override {
    bool fails = strikes();
    int number = errno;
    int rc = FileSystem::close(descriptor);  // Linux closes it in any case
    errno = number;
    return fails ? -1 : rc;
  }
  ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) override {
    if (strikes(true)) {
      if (plan_.fault != Fault::short_write) return -1;
      bytes = (bytes + 1) / 2;
    }
    return FileSystem::pwrite(descriptor, data, bytes, offset);
  }
  ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset) override {
    return strikes() ? -1 : FileSystem::pread(descriptor, data, bytes, offset);
  }
  int fsync(int descriptor) override { return strikes() ? -1 : FileSystem::fsync(descriptor); }
  int fallocate(int descriptor, off_t offset, off_t bytes) override {
    if (strikes()) return -1;
    if (plan_.old_kernel) return errno = EOPNOTSUPP, -1;
    return FileSystem::fallocate(descriptor, offset, bytes);
  }
  int mkdir(const char* path, mode_t mode) override { return strikes() ? -1 : FileSystem::mkdir(path, mode); }
  int rename(const char* from, const char* to, unsigned flags) override {
    if (strikes()) return -1;
    if (plan_.old_kernel && flags != 0) return errno = EINVAL, -1;
    return FileSystem::rename(from, to, flags);
  }
  int unlink(const char* path) override { return strikes() ? -1 : FileSystem::unlink(path); }
  int rmdir(const char* path) override { return strikes() ? -1 : FileSystem::rmdir(path); }
  int statvfs(const char* path, struct statvfs* result) override {
    if (strikes()) return -1;
    int rc = FileSystem::statvfs(path, result);
    if (plan_.old_kernel) result->f_blocks = 0;
    return rc;
  }
  int before_hdf5(const char* path) override { return strikes() ? -1 : FileSystem::before_hdf5(path); }

 private:
  /// Whether this operation is to fail; errno is set.
  bool strikes(bool writes = false) {
    int now = count_++;
    bool hit = now == plan_.at || (plan_.persistent && now > plan_.at);
    if (plan_.fault == Fault::none || !hit || (plan_.fault == Fault::short_write && !writes)) return false;
    if (plan_.fault == Fault::kill) ::kill(::getpid(), SIGKILL);
    struck_ = true;
    if (plan_.fault == Fault::call) return plan_.call(), false;
    errno = plan_.number;
    return true;
  }

  Plan plan_;
  std::atomic<int> count_{0};
  std::atomic<bool> struck_{false};
};

}  // namespace distdl::checkpoint
