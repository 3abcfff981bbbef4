// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include <distdl/app/bench/raw_file.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::app {
namespace {
constexpr std::size_t kCall = 4 << 20;

FileDescriptor open_file(const std::filesystem::path& path, int flags) {
  FileDescriptor file(real_file_system().open(path.c_str(), flags | O_CLOEXEC, 0644));
  require<StorageError>(static_cast<bool>(file), "cannot open \"{}\": {}", path.string(), errno_text(errno));
  return file;
}
}  // namespace

void RawFile::write(std::span<const std::byte> bytes, Cache cache) const {
  remove();
  bool passed = cache == Cache::passed && bytes.size() % 4096 == 0;
  FileDescriptor file = open_file(path_, O_WRONLY | O_CREAT | O_EXCL | (passed ? O_DIRECT : 0));
  std::unique_ptr<void, void (*)(void*)> aligned(std::aligned_alloc(4096, kCall), &std::free);
  for (std::size_t at = 0; at < bytes.size();) {
    auto piece = bytes.subspan(at, std::min(kCall, bytes.size() - at));
    const void* from = piece.data();
    if (passed) from = std::memcpy(aligned.get(), piece.data(), piece.size());
    ssize_t n = ::pwrite(file.get(), from, piece.size(), static_cast<off_t>(at));
    require<StorageError>(n > 0, "cannot write \"{}\": {}", path_.string(), errno_text(errno));
    at += static_cast<std::size_t>(n);
  }
  const bool synced = ::fsync(file.get()) == 0;
  require<StorageError>(synced, "cannot sync \"{}\": {}", path_.string(), errno_text(errno));
}

void RawFile::read(std::span<std::byte> bytes) const {
  FileDescriptor file = open_file(path_, O_RDONLY);
  for (std::size_t at = 0; at < bytes.size();) {
    ssize_t n = ::pread(file.get(), bytes.data() + at, std::min(kCall, bytes.size() - at), static_cast<off_t>(at));
    require<StorageError>(n != 0, "cannot read \"{}\": it ends after {} of {} bytes", path_.string(), at, bytes.size());
    require<StorageError>(n > 0, "cannot read \"{}\": {}", path_.string(), errno_text(errno));
    at += static_cast<std::size_t>(n);
  }
}

void RawFile::remove() const {
  remove_file(path_);
}

void drop_cache(const std::filesystem::path& path) {
  FileDescriptor file = open_file(path, O_RDONLY);
  int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  require<StorageError>(error == 0, "cannot drop \"{}\" from the page cache: {}", path.string(), errno_text(error));
}

BenchFolder::BenchFolder(const std::filesystem::path& parent, comm::Communicator& communicator) {
  std::string name, problem;
  try {
    if (communicator.rank() == Rank(0))
      name = mine_.emplace(resolved(parent), "distdl-bench").path().filename().string();
  } catch (const StorageError& error) {
    problem = error.what();
  }
  problem = communicator.all_gather_strings(problem).front();
  path_ = resolved(parent) / communicator.all_gather_strings(name).front();
  require<StorageError>(problem.empty(), "{}", problem);
}

}  // namespace distdl::app
