// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/log.hpp>

// The logs of a run: one file per node, logs/<host>.log, to which its ranks and "distdl run" append.
namespace distdl::observe {

/// One line of a log. A line without a time of its own, as of a text over several lines, belongs to the one before.
struct LogLine {
  std::string time = {};  ///< "2026-03-01T12:00:00.123456", local time; lines sort by it
  Severity severity = Severity::info;
  std::string host = {};  ///< host in the name of the file
  std::string text = {};  ///< the whole line
};

/// `before`: the line before in the same file.
LogLine parse_log_line(std::string_view text, const std::string& host, const LogLine& before);

/// Reads all logs of a folder, and what is appended to them later, also by files that appear later. Its memory does not
/// grow with the files.
class LogMerge {
 public:
  explicit LogMerge(std::filesystem::path logs);
  ~LogMerge();
  LogMerge(const LogMerge&) = delete;
  LogMerge& operator=(const LogMerge&) = delete;

  /// Calls `visit` for the lines that are new since the last call, of all files, ordered by time. Lines of one file may
  /// be out of order by a MiB or 16384 lines: its writers are several. A last line without its newline waits for the
  /// rest, unless `all`. Throws StorageError that names a folder or file that this user may not read.
  void read(const std::function<void(const LogLine&)>& visit, bool all);
  /// Leaves out, of what is there now, all but about the last `lines` lines.
  void skip_to_last(std::size_t lines);

 private:
  class File;
  void find_files();

  std::filesystem::path folder_;
  std::map<std::string, File> files_;  ///< by host
};

}  // namespace distdl::observe
