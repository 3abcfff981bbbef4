// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/handles.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/format/block_workers.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
constexpr const char* kShared = "/dev/shm";
constexpr std::size_t kHugePage = 2 << 20;

void close_folder(DIR* folder) noexcept {
  ::closedir(folder);
}
using Folder = UniqueHandle<DIR*, &close_folder>;

bool is_private(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 0077) == 0;
}

[[noreturn]] void throw_no_room(std::size_t bytes, int number) {
  throw StorageError(
      fmt::format("no space for a snapshot buffer of {} bytes in {}: {}; free some (old files have names like "
                  "distdl*), enlarge it, or set checkpoint.mode = \"sync\"",
                  bytes, kShared, errno_text(number)));
}

/// Touches all pages, by several threads: a virtual machine takes seconds for each GiB that it had not used before.
/// That is advice, which older systems refuse.
void populate(std::span<std::byte> memory) {
  constexpr std::size_t kMostThreads = 4, kLeastPart = 64 << 20;
  const std::size_t parts = std::clamp<std::size_t>(memory.size() / kLeastPart, 1, kMostThreads);
  const std::size_t each = (memory.size() / parts + kHugePage - 1) / kHugePage * kHugePage;
  const auto touch = [&](std::size_t part) {
    const std::size_t begin = std::min(part * each, memory.size());
    static_cast<void>(::madvise(memory.data() + begin, std::min(each, memory.size() - begin), MADV_POPULATE_WRITE));
  };
  for_each_block(parts, kMostThreads, touch);
}

[[noreturn]] void throw_being_removed(const std::string& name) {
  throw StorageError(fmt::format("{}/{} is being removed", kShared, name), ExitCode::incomplete);
}

template <class Visit>
void for_each_name(const std::string& prefix, Visit&& visit) {
  const Folder folder(::opendir(kShared));
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder.get()))  // NOLINT(concurrency-mt-unsafe): a folder of its own
    if (std::string_view(entry->d_name).starts_with(prefix)) visit(std::string(entry->d_name));
}
}  // namespace

std::string buffer_prefix() {
  return fmt::format("distdl.slot-{}-", ::geteuid());
}

/// No '-' within: it ends the part of the name.
std::string buffer_prefix(const std::string& run) {
  std::string plain = run.substr(0, 100);
  for (char& c : plain)
    if (std::string_view("/-. \n").find(c) != std::string_view::npos) c = '_';
  return buffer_prefix() + plain + "-";
}

SnapshotMemory SnapshotMemory::create(const std::string& run, int rank, std::size_t bytes) {
  SnapshotMemory memory;
  struct stat status {};
  do {
    std::string name = fmt::format("{}{}-{}", buffer_prefix(run), rank, random_hex(8));
    memory.file_.reset(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
    require_call<StorageError>(static_cast<bool>(memory.file_), "cannot create {}/{}", kShared, name);
    memory.name_ = name;
    const int problem = ::flock(memory.file_.get(), LOCK_SH | LOCK_NB) == 0 ? 0 : errno;
    // A sweep may have come between creation and lock; then the name is gone, or will be.
    if (problem != 0) memory.remove();
    require<StorageError>(problem == 0 || problem == EWOULDBLOCK, "cannot lock {}/{}: {}", kShared, name,
                          errno_text(problem));
    if (problem != 0) continue;
    const bool seen = ::fstat(memory.file_.get(), &status) == 0;
    require<StorageError>(seen, "cannot inspect {}/{}: {}", kShared, name, errno_text(errno));
  } while (status.st_nlink == 0);
  try {
    memory.reserve(bytes);
    memory.map(bytes, true, memory.name_);
  } catch (...) {
    memory.remove();
    throw;
  }
  return memory;
}

/// So that a full file system is an error here, not a SIGBUS later.
void SnapshotMemory::reserve(std::size_t bytes) {
  struct statvfs status {};
  bool known = ::fstatvfs(file_.get(), &status) == 0 && status.f_blocks != 0;
  // The free space is checked first, so that memory which other processes need is not allocated without success.
  if (known && bytes / status.f_bsize >= status.f_bavail) throw_no_room(bytes, ENOSPC);
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) throw_no_room(bytes, errno);
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) throw_no_room(bytes, error);
}

void SnapshotMemory::map(std::size_t bytes, bool writes, const std::string& what) {
  int flags = file_ ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* address = ::mmap(nullptr, bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ, flags, file_.get(), 0);
  require_call<StorageError>(address != MAP_FAILED, "cannot map {} bytes of {}", bytes, what);
  bytes_ = {static_cast<std::byte*>(address), bytes};
  // Both are advice: older systems refuse it.
  if (bytes >= kHugePage) static_cast<void>(::madvise(address, bytes, MADV_HUGEPAGE));
  if (writes) populate(bytes_);
}

SnapshotMemory SnapshotMemory::create_private(std::size_t bytes) {
  SnapshotMemory memory;
  memory.map(bytes, true, "private memory");
  return memory;
}

SnapshotMemory SnapshotMemory::open(const std::string& name) {
  SnapshotMemory memory = peek(name);
  if (::flock(memory.file_.get(), LOCK_SH | LOCK_NB) != 0) throw_being_removed(name);
  return memory;
}

SnapshotMemory SnapshotMemory::peek(const std::string& name) {
  require<StorageError>(name.starts_with(buffer_prefix()) && name.find('/') == std::string::npos,
                        "\"{}\" is not a buffer of this user: expected a name like {}...", name, buffer_prefix());
  SnapshotMemory memory;
  memory.file_.reset(::shm_open(name.c_str(), O_RDONLY | O_NONBLOCK, 0));
  if (!memory.file_ && is_shortage(errno))
    fail_call<StorageError>(fmt::format("cannot open {}/{}", kShared, name), errno);
  if (!memory.file_)
    throw StorageError(fmt::format("cannot open {}/{}: {}", kShared, name, errno_text(errno)),
                       errno == ENOENT ? ExitCode::incomplete : ExitCode::storage);
  struct stat status {};
  bool mine = ::fstat(memory.file_.get(), &status) == 0 && is_private(status);
  require<StorageError>(mine, "{}/{} is accessible to other users: expected a file of user {} with mode 0600", kShared,
                        name, ::geteuid());
  if (status.st_size == 0) throw_being_removed(name);
  memory.name_ = name;
  memory.map(static_cast<std::size_t>(status.st_size), false, name);
  return memory;
}

SnapshotMemory::SnapshotMemory(SnapshotMemory&& other) noexcept
    : name_(std::move(other.name_)), file_(std::move(other.file_)), bytes_(std::exchange(other.bytes_, {})) {
  other.name_.clear();
}

SnapshotMemory& SnapshotMemory::operator=(SnapshotMemory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(file_, other.file_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SnapshotMemory::~SnapshotMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

void SnapshotMemory::touch() noexcept {
  if (file_) static_cast<void>(::futimens(file_.get(), nullptr));  // at worst it seems older
}

void SnapshotMemory::remove() noexcept {
  if (!name_.empty()) ::shm_unlink(name_.c_str());
}

std::vector<std::string> buffers_of(const std::string& run, int rank) {
  std::vector<std::string> names;
  std::string prefix = rank < 0 ? buffer_prefix(run) : fmt::format("{}{}-", buffer_prefix(run), rank);
  for_each_name(prefix, [&](std::string name) { names.push_back(std::move(name)); });
  return names;
}

static bool remove_orphan(const std::string& name, std::chrono::seconds restart) {
  const FileDescriptor file(::shm_open(name.c_str(), O_RDONLY | O_NONBLOCK, 0));
  struct stat status {};
  const bool stale = file && ::fstat(file.get(), &status) == 0 && is_private(status) &&
                     whole_seconds_since_1970() - status.st_mtime >= restart.count() &&
                     ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  return stale && ::shm_unlink(name.c_str()) == 0;
}

bool remove_orphan(const std::string& name) {
  return remove_orphan(name, std::chrono::seconds(0));
}

int sweep_buffers(const std::string& spare, std::chrono::seconds restart) {
  int removed = 0;
  for_each_name(buffer_prefix(), [&](const std::string& name) {
    if (spare.empty() || !name.starts_with(buffer_prefix(spare))) removed += remove_orphan(name, restart) ? 1 : 0;
  });
  return removed;
}

int sweep_buffers_of(const std::string& run) {
  int removed = 0;
  for (const std::string& name : buffers_of(run)) removed += remove_orphan(name);
  return removed;
}

}  // namespace distdl::checkpoint
