// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <distdl/base/file_descriptor.hpp>

namespace distdl {

/// Where the last name of a path lies: the folder is open, and was reached without following a link. A walk by hand,
/// because openat2 is missing before Linux 5.6. What creates, opens for writing, renames or removes works on it.
class PathEnd {
 public:
  explicit PathEnd(std::string_view path);
  /// False with errno set, ELOOP if there is a link on the way.
  explicit operator bool() const { return is_open_; }
  int folder() const;  ///< AT_FDCWD for a relative path without a folder
  const char* name() const { return name_.c_str(); }

 private:
  void enter(const std::string& name);

  FileDescriptor folder_;
  std::string name_;
  bool is_open_ = true;
};

/// The first link on a path, as far as it can be looked at. Empty if there is none.
std::filesystem::path link_on(const std::filesystem::path& path);

}  // namespace distdl
