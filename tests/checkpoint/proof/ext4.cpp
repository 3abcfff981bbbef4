// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/proof/ext4.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

namespace distdl::checkpoint::proof {
namespace {

constexpr unsigned long kShutdown = _IOR('X', 125, std::uint32_t);  // EXT4_IOC_SHUTDOWN, in no public header
constexpr std::uint32_t kFlushLog = 1, kNoFlush = 2;                // EXT4_GOING_FLAGS_LOGFLUSH, _NOLOGFLUSH

template <class T>
T check(T result, const char* call) {
  if (result < 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  return result;
}

struct Loop {
  std::string device;
  int descriptor = -1;  ///< keeps it until it is mounted
};

/// A loop device that disappears with its last user.
Loop attach(const std::filesystem::path& image) {
  int control = check(::open("/dev/loop-control", O_RDWR | O_CLOEXEC), "open /dev/loop-control");
  int file = check(::open(image.c_str(), O_RDWR | O_CLOEXEC), "open image");
  for (int tries = 0;; ++tries) {  // somebody else may take the free one first
    int number = check(::ioctl(control, LOOP_CTL_GET_FREE), "LOOP_CTL_GET_FREE");
    std::string device = "/dev/loop" + std::to_string(number);
    int loop = check(::open(device.c_str(), O_RDWR | O_CLOEXEC), "open loop device");
    struct loop_config config {};
    config.fd = static_cast<std::uint32_t>(file);
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    int rc = ::ioctl(loop, LOOP_CONFIGURE, &config);
    int number_of_error = errno;
    if (rc == 0) {
      ::close(control), ::close(file);
      return {device, loop};
    }
    ::close(loop);
    errno = number_of_error;
    if (errno != EBUSY || tries > 100) check(-1, "LOOP_CONFIGURE");
  }
}
}  // namespace

std::string cannot_make_ext4() {
  if (::geteuid() != 0) return "only root may mount an ext4 file system";
  if (::access("/dev/loop-control", W_OK) != 0) return "there are no loop devices";
  if (std::system("command -v mkfs.ext4 > /dev/null") != 0) return "there is no mkfs.ext4 (apt-get install e2fsprogs)";
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return "no mount namespace may be made";
  return "";
}

void Ext4::make(const std::filesystem::path& image, int mebibytes) {
  int file = check(::open(image.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), "create image");
  check(::ftruncate(file, off_t{mebibytes} << 20), "ftruncate");
  ::close(file);
  if (std::system(
          ("mkfs.ext4 -q -F -b 4096 -J size=4 -N 512 -E lazy_itable_init=0,lazy_journal_init=1 " + image.string())
              .c_str()) != 0)
    throw std::runtime_error("mkfs.ext4 failed");
}

Ext4::Ext4(const std::filesystem::path& image, const std::filesystem::path& where, const std::string& options)
    : where_(where) {
  Loop loop = attach(image);
  int rc = ::mount(loop.device.c_str(), where_.c_str(), "ext4", MS_NOATIME, options.c_str());
  int number = errno;
  ::close(loop.descriptor);
  errno = number;
  check(rc, "mount");
  root_ = check(::open(where_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open mount point");
}

Ext4::~Ext4() {
  ::close(root_);
  ::umount(where_.c_str());
}

void Ext4::cut_power(Journal journal) {
  std::uint32_t flags = journal == Journal::written ? kFlushLog : kNoFlush;
  if (::ioctl(root_, kShutdown, &flags) != 0) ::abort();
}

}  // namespace distdl::checkpoint::proof
