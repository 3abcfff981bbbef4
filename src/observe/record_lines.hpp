// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <distdl/records/row_text.hpp>

// Readers of journal.jsonl and metrics.jsonl. The files are not trusted, and a run does not depend on them.
namespace distdl::observe {

inline constexpr std::size_t kMostRead = 64 << 20;  ///< bytes; only the end of a longer file is read

/// Calls `visit` for each row (records::parse_row) of a text that is given in pieces.
class RecordLines {
 public:
  explicit RecordLines(std::function<void(const records::Row&)> visit) : visit_(std::move(visit)) {}
  /// Skips the rest of a line, with which the text begins.
  void skip_one() { too_long_ = true; }
  void take(std::string_view piece);
  /// Handles the last line, which may lack its newline.
  void finish();

 private:
  void add(std::string_view part);

  std::function<void(const records::Row&)> visit_;
  std::string line_;
  bool too_long_ = false;
};

/// Visits the lines of a file, or of the last `most` bytes of a longer one. Throws StorageError if it cannot be read,
/// after the lines before; incomplete if there is no such file.
void read_records(const std::filesystem::path& file, const std::function<void(const records::Row&)>& visit,
                  std::size_t most = kMostRead);
/// As read_records(), for a file that nothing depends on: throws no StorageError, but passes over what cannot be read.
/// Warns once of each file that this user may not read.
void for_each_record(const std::filesystem::path& file, const std::function<void(const records::Row&)>& visit,
                     std::size_t most = kMostRead);

}  // namespace distdl::observe
