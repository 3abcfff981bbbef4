// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

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

}  // namespace distdl::observe
