// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {

/// What a write that is cut short does; in whole pages, as a file open past the page cache must.
inline std::size_t half_of(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  return bytes < 2 * kPage ? (bytes + 1) / 2 : bytes / 2 / kPage * kPage;
}

/// Counts the operations that a save does, and does something bad at the n-th, or from the n-th on.
class FailingFileSystem : public FileSystem {
 public:
  /// `lost_pages`: fsync fails once, and what was written since is gone, as on Linux; trying again would succeed.
  enum class Fault { none, kill, error, short_write, failing_close, lost_pages, call };
  enum class Call { any, write, sync, close, name };  ///< name: what makes, renames or removes one
  struct Plan {
    Fault fault = Fault::none;
    int at = -1;                      ///< number of the operation, from 0
    bool persistent = false;          ///< and all later ones
    int number = EIO;                 ///< for Fault::error
    bool old_kernel = false;          ///< renameat2 knows no flags, fallocate does not exist, statvfs tells nothing
    std::function<void()> call = {};  ///< for Fault::call: done just before the operation, which then goes on
    Call only = Call::any;            ///< count only these
    std::string about = {};           ///< of the calls that name a file: count only those whose path has this text
  };

  explicit FailingFileSystem(Plan plan, FileSystem& inner = real_file_system())
      : plan_(std::move(plan)), inner_(inner) {}
  int operations() const { return count_; }
  /// Whether the fault was met.
  bool struck() const { return struck_; }
  /// Strikes at the n-th operation from now on.
  void strike_in(int operations) { plan_.at = count_ + operations; }
  /// From now on all goes well.
  void heal() { healed_ = true; }

  int open(const char* path, int flags, mode_t mode) override {
    return strikes(flags & O_CREAT ? Call::name : Call::any, path) ? -1 : inner_.open(path, flags, mode);
  }
  int close(int descriptor) override {
    bool fails = strikes(Call::close);
    int number = errno;
    int rc = inner_.close(descriptor);  // Linux closes it in any case
    errno = number;
    return fails ? -1 : rc;
  }
  ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) override {
    if (strikes(Call::write)) {
      if (plan_.fault != Fault::short_write) return -1;
      bytes = half_of(bytes);
    }
    return inner_.pwrite(descriptor, data, bytes, offset);
  }
  ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset) override {
    return strikes() ? -1 : inner_.pread(descriptor, data, bytes, offset);
  }
  int fsync(int descriptor) override {
    if (!strikes(Call::sync)) return inner_.fsync(descriptor);
    if (plan_.fault == Fault::lost_pages) lose_pages(descriptor);
    return -1;
  }
  int fallocate(int descriptor, off_t offset, off_t bytes) override {
    if (strikes()) return -1;
    if (plan_.old_kernel) return errno = EOPNOTSUPP, -1;
    return inner_.fallocate(descriptor, offset, bytes);
  }
  int mkdir(const char* path, mode_t mode) override {
    return strikes(Call::name, path) ? -1 : inner_.mkdir(path, mode);
  }
  int rename(const char* from, const char* to, unsigned flags) override {
    if (strikes(Call::name, from)) return -1;
    if (plan_.old_kernel && flags != 0) return errno = EINVAL, -1;
    return inner_.rename(from, to, flags);
  }
  int unlink(const char* path) override { return strikes(Call::name, path) ? -1 : inner_.unlink(path); }
  int rmdir(const char* path) override { return strikes(Call::name, path) ? -1 : inner_.rmdir(path); }
  int statvfs(const char* path, struct statvfs* result) override {
    if (strikes()) return -1;
    int rc = inner_.statvfs(path, result);
    if (plan_.old_kernel) result->f_blocks = 0;
    return rc;
  }
  int before_hdf5(const char* path) override { return strikes(Call::name, path) ? -1 : inner_.before_hdf5(path); }

 private:
  static void lose_pages(int descriptor) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (::ftruncate(descriptor, 0) != 0 || ::ftruncate(descriptor, status.st_size) != 0) ::abort();
    errno = EIO;
  }

  /// Whether this operation is to fail; errno is set.
  bool strikes(Call call = Call::any, const char* path = "") {
    if (plan_.only != Call::any && call != plan_.only) return false;
    if (std::string_view(path).find(plan_.about) == std::string_view::npos) return false;
    int now = count_++;
    bool hit = now == plan_.at || (plan_.persistent && now > plan_.at);
    if (plan_.fault == Fault::none || !hit || healed_) return false;
    if (plan_.fault == Fault::short_write && call != Call::write) return false;
    if (plan_.fault == Fault::failing_close && call != Call::close) return false;
    if (plan_.fault == Fault::lost_pages && call != Call::sync) return false;
    if (plan_.fault == Fault::kill) ::kill(::getpid(), SIGKILL);
    struck_ = true;
    if (plan_.fault == Fault::call) return plan_.call(), false;
    errno = plan_.number;
    return true;
  }

  Plan plan_;
  FileSystem& inner_;
  std::atomic<int> count_{0};
  std::atomic<bool> struck_{false}, healed_{false};
};

}  // namespace distdl::checkpoint
