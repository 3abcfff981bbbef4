// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::observe {

/// Appends lines to a file of records, as journal.jsonl. A torn line of a killed run or a full disk is completed with a
/// newline. Lines that the file system refuses are lost with one warning, and so are all where the file cannot be
/// opened or is no regular file: they must not end a run. Several processes may append to one file.
class RecordWriter {
 public:
  explicit RecordWriter(std::filesystem::path file);
  /// `row`: one JSON object, without the newline. A file system that refuses it is no error.
  void append(const std::string& row);

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
  bool torn_ = false;  ///< the last line is not whole
  bool warned_ = false;
};

/// Puts a whole file in place at once, on the disk: nobody ever sees half of it, whatever goes off when. Throws
/// StorageError.
void replace_file(const std::filesystem::path& file, std::string_view text);

}  // namespace distdl::observe
