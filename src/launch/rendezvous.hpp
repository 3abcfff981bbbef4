// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include <distdl/files/private_folder.hpp>

namespace distdl::launch {

/// A rendezvous folder for the ranks of one launch on this machine. The destructor removes it. This process holds a
/// lock on it. If the process is killed, the next one of the same user removes the folder.
class Rendezvous {
 public:
  /// Throws StorageError.
  Rendezvous();
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  const std::filesystem::path& folder() const { return folder_->path(); }

 private:
  bool make(const std::filesystem::path& path);

  std::optional<PrivateFolder> folder_;  ///< its descriptor has the lock
};

}  // namespace distdl::launch
