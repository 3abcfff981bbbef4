// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/files/file_operations.hpp>

namespace distdl {

/// Deletes a folder that an earlier process of distdl has left. Nothing is deleted unless the folder belongs to this
/// user and `is_own` is true for each name in it. Links on the way are not followed, and folders in it are not entered.
/// Returns false with errno set if something remains.
bool remove_own_folder(const Path& folder, bool (*is_own)(const std::string& name)) noexcept;

/// A new folder for this user alone, with an unpredictable name. The destructor deletes it.
class ScratchFolder {
 public:
  /// Its name begins with `name`. Throws FileError.
  ScratchFolder(const Path& parent, const std::string& name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const Path& path() const noexcept { return path_; }

 private:
  Path path_;
};

}  // namespace distdl
