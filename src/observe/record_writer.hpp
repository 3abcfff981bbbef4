// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::observe {

/// Treatment of the beginning of a row that a killed run or a full disk has left at the end of a file: `end` completes
/// it with a newline, `remove` removes it. `remove` is for whoever begins a start of the run; it leaves a file alone
/// that changes within 50 ms, because another process may be writing the row.
enum class TornLine { end, remove };

/// Appends lines to a file of records, as journal.jsonl. A torn line at its end is removed, or completed with a
/// newline: readers pass over it then. Lines that the file system refuses are lost with one warning, and so are all
/// where the file cannot be opened or is no regular file: they must not end a run. Several processes may append to one
/// file.
class RecordWriter {
 public:
  explicit RecordWriter(std::filesystem::path file, TornLine torn = TornLine::end);
  /// `row`: one JSON object, without the newline. A file system that refuses it is no error.
  void append(const std::string& row);
  /// Size of the file, without what others have written meanwhile.
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
  std::uint64_t bytes_ = 0;
  bool torn_ = false;  ///< the last line is not whole
  bool warned_ = false;
};

}  // namespace distdl::observe
