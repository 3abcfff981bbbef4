// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::launch {

/// A folder for the ranks of one launch on this machine to meet in; removed at the end. It is locked as long as this
/// process lives: what a killed one has left, the next one of the same user removes.
class Rendezvous {
 public:
  /// Throws StorageError.
  Rendezvous();
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  bool make(const std::filesystem::path& folder);

  std::filesystem::path folder_;
  FileDescriptor lock_;
};

}  // namespace distdl::launch
