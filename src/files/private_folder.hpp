// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/file_descriptor.hpp>

namespace distdl {

/// A folder of this user that nobody else may write to, held open: what processes of one user tell each other, even
/// where others may write to the folder around it. All access is by the descriptor. A user who may rename the folder
/// can therefore neither read nor change what is in it, nor put another folder in its place without notice. Neither the
/// folder nor the one around it may be a link. The functions throw StorageError.
class PrivateFolder {
 public:
  /// Makes the folder with mode 0700 if there is none, and missing parents with the modes of mkdir -p. Takes the rights
  /// of others away if this user's folder gives some. Refuses a folder of another user.
  static PrivateFolder make(const std::filesystem::path& folder);
  /// Opens the folder; nothing if there is none. Refuses a folder of another user, and one that others may write to.
  static std::optional<PrivateFolder> open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return folder_.get(); }
  /// Names of all entries. The folder is opened anew by its name, which refreshes the cache of a network file system.
  /// Throws if another folder has taken its place.
  std::vector<std::string> names() const;
  /// The bytes of a file of this user. Throws incomplete if there is none, corrupt if it has more than `most` bytes.
  std::string read(const std::string& name, std::size_t most) const;
  /// Gives the file `name` this text, which is there at once and whole.
  void put(const std::string& name, const std::string& text) const;
  /// Creates the file `name` with this text, synced, in one step. False if there is an entry of this name.
  bool create(const std::string& name, const std::string& text) const;
  /// Removes the folder with all that is in it.
  void remove() const;

 private:
  PrivateFolder(std::filesystem::path path, FileDescriptor parent, FileDescriptor folder);
  std::string write_aside(const std::string& name, const std::string& text, bool sync) const;

  std::filesystem::path path_;
  FileDescriptor parent_, folder_;
};

}  // namespace distdl
