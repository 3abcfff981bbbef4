// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <map>
#include <mutex>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/handles.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/comm/shm/shared_segment.hpp>

namespace distdl::comm {
namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr std::size_t kHugePage = 2 << 20;

/// The segments mapped into this process, by name: for threads of one process must see the same addresses, for what
/// they do to be seen as synchronized, and for addresses to mean the same to them.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<SharedSegment>> segments;
};

// Never destroyed: static objects may hold segments.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

void close_folder(DIR* folder) noexcept {
  ::closedir(folder);
}
using Folder = UniqueHandle<DIR*, &close_folder>;

std::string prefix() {
  return fmt::format("distdl-{}-", ::geteuid());
}

std::string new_name(const std::string& job) {
  std::string plain = job.substr(0, 64);
  for (char& c : plain)
    if (std::string_view("/-. \n").find(c) != std::string_view::npos) c = '_';
  return fmt::format("{}{}-{:016x}", prefix(), plain, random_number());
}

bool is_private(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 0077) == 0;
}

[[noreturn]] void throw_no_room(std::size_t bytes, int error) {
  throw CommError(fmt::format("no space for {} bytes of shared memory in {}: {}; free some (old files of distdl are "
                              "called distdl-*), enlarge it, or run fewer ranks per node",
                              bytes, kFolder, errno_text(error)),
                  ExitCode::storage);
}

/// Before memory is taken that others may need.
void check_room(int descriptor, std::size_t bytes) {
  struct statvfs status {};
  if (::fstatvfs(descriptor, &status) != 0 || status.f_blocks == 0) return;  // no limit
  if (bytes / status.f_bsize >= status.f_bavail) throw_no_room(bytes, ENOSPC);
}

/// Exclusive, never waiting.
bool lock(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

/// Opens a segment that another rank of the node has named. The rank is trusted, but the file may belong to another
/// user.
FileDescriptor open_checked(const std::string& name, std::size_t& bytes) {
  if (!name.starts_with(prefix()) || name.find('/') != std::string::npos)
    throw CommError(
        fmt::format(R"("{}" is not shared memory of this user: expected a name like {}...)", name, prefix()));
  FileDescriptor descriptor(::shm_open(name.c_str(), O_RDWR, 0));
  struct stat status {};
  require_call<CommError>(descriptor && ::fstat(descriptor.get(), &status) == 0,
                          "cannot open {}/{}, whose owner may have died", kFolder, name);
  if (!is_private(status))
    throw CommError(fmt::format("{}/{} is accessible to other users: expected a file of user {} with mode 0600",
                                kFolder, name, ::geteuid()));
  bytes = static_cast<std::size_t>(status.st_size);
  return descriptor;
}

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create(const std::string& job, std::size_t bytes) {
  std::shared_ptr<SharedSegment> segment(new SharedSegment);
  constexpr int kAttempts = 10;
  for (int i = 0; i < kAttempts; ++i)
    if (segment->create_locked(new_name(job))) break;
  if (!segment->locked_)
    throw CommError(fmt::format("{}/{} was locked by others {} times; does its file system support locks?", kFolder,
                                prefix(), kAttempts));
  check_room(segment->locked_.get(), bytes);
  if (::ftruncate(segment->locked_.get(), static_cast<off_t>(bytes)) != 0) throw_no_room(bytes, errno);
  segment->map(segment->locked_.get(), bytes, Mapping::eager);
  segment->reserve();
  const std::lock_guard lock(registry().mutex);
  registry().segments[segment->name_] = segment;
  return segment;
}

/// False if a sweep got between creation and lock.
bool SharedSegment::create_locked(const std::string& name) {
  FileDescriptor descriptor(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  if (!descriptor && is_shortage(errno)) fail_call<CommError>(fmt::format("cannot create {}/{}", kFolder, name), errno);
  if (!descriptor)
    throw CommError(
        fmt::format("cannot create {}/{}: {}; this user must be able to write there", kFolder, name, errno_text(errno)),
        ExitCode::storage);
  struct stat status {};
  if (!lock(descriptor.get()) || ::fstat(descriptor.get(), &status) != 0 || status.st_nlink == 0) {
    ::shm_unlink(name.c_str());
    return false;
  }
  name_ = name;
  creator_ = ::getpid();
  locked_ = std::move(descriptor);
  return true;
}

/// So that a full file system is an error here, not a SIGBUS later.
void SharedSegment::reserve() {
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(locked_.get(), 0, static_cast<off_t>(bytes_));
  if (error != 0) throw_no_room(bytes_, error);
}

std::shared_ptr<SharedSegment> SharedSegment::open(const std::string& name, Mapping mapping) {
  std::shared_ptr<SharedSegment> segment;  // goes after the lock, should this fail
  const std::lock_guard lock(registry().mutex);
  const auto known = registry().segments.find(name);
  if (known != registry().segments.end()) segment = known->second.lock();
  if (segment) return segment;
  segment.reset(new SharedSegment);
  std::size_t bytes = 0;
  const FileDescriptor descriptor = open_checked(name, bytes);
  segment->name_ = name;
  segment->map(descriptor.get(), bytes, mapping);
  registry().segments[name] = segment;
  return segment;
}

void SharedSegment::map(int descriptor, std::size_t bytes, Mapping mapping) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  require_call<CommError>(address != MAP_FAILED, "cannot map {} bytes of {}/{}", bytes, kFolder, name_);
  data_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  // Both are advice: older systems refuse it. Huge pages must be asked for before memory is reserved.
  if (bytes >= kHugePage) static_cast<void>(::madvise(address, bytes, MADV_HUGEPAGE));
  if (mapping == Mapping::eager) static_cast<void>(::madvise(address, bytes, MADV_POPULATE_WRITE));
}

SharedSegment::~SharedSegment() {
  unlink();
  if (data_) ::munmap(data_, bytes_);
  const std::lock_guard lock(registry().mutex);
  const auto known = registry().segments.find(name_);
  if (known != registry().segments.end() && known->second.expired()) registry().segments.erase(known);
}

bool SharedSegment::is_created_here() const {
  return creator_ == ::getpid();
}

void SharedSegment::unlink() noexcept {
  if (!is_created_here() || !locked_) return;
  ::shm_unlink(name_.c_str());
  locked_.reset();
}

int SharedSegment::sweep() {
  const Folder folder(::opendir(kFolder));
  if (!folder) return 0;
  int removed = 0;
  while (const dirent* entry =
             ::readdir(folder.get())) {  // NOLINT(concurrency-mt-unsafe): not one folder in two threads
    const std::string name = entry->d_name;
    if (!name.starts_with(prefix())) continue;
    const FileDescriptor descriptor(::shm_open(name.c_str(), O_RDWR, 0));
    struct stat status {};
    if (descriptor && ::fstat(descriptor.get(), &status) == 0 && is_private(status) && lock(descriptor.get()) &&
        ::shm_unlink(name.c_str()) == 0)
      ++removed;
  }
  return removed;
}

}  // namespace distdl::comm
