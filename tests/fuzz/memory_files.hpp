// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <distdl/files/file_system.hpp>

namespace distdl::fuzz {

/// A file without a folder, for readers that want one.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void put(std::string_view bytes) {
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  int descriptor() const { return descriptor_; }
  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

/// Files by the last part of their names, for what goes through the checkpoints' seam to the file system.
class MemoryFiles final : public FileSystem {
 public:
  void put(const std::string& name, std::string_view bytes) { files_[name].put(bytes); }
  int open(const char* path, int, mode_t) override {
    const auto found = files_.find(std::filesystem::path(path).filename().string());
    if (found == files_.end()) return errno = ENOENT, -1;
    return ::dup(found->second.descriptor());
  }

 private:
  std::map<std::string, MemoryFile> files_;
};

}  // namespace distdl::fuzz
