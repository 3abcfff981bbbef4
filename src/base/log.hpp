// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/ids.hpp>

namespace distdl {

enum class Severity { debug, info, warning, error };

/// Accepts "debug", "info", "warning" and "error". Throws ConfigError for any other name.
Severity severity_from(std::string_view name);

struct LogOptions {
  Severity level = Severity::info;
  bool console = true;  ///< log to stderr; usually on rank 0 only
  /// Log file to append to; empty: none. Ranks of a node may share it: lines are written whole.
  std::filesystem::path file;
  std::string host;
  int rank = -1;  ///< -1: this process is not a rank (the supervisor, a tool)
};

/// Starts logging for this process. Before this call, warnings and errors go to stderr, and other messages are dropped.
/// Throws StorageError if the file cannot be opened.
void start_logging(const LogOptions& options);
/// Sets the step that is an attribute of later lines of this process.
void set_log_step(Step step);
/// Sets the rank of later lines of the calling thread, for ranks that are threads.
void set_log_rank(Rank rank);

void write_log(Severity severity, const std::string& message);

/// The function that detects an error logs it; callers only pass it on. Messages are in lower case, with values after a
/// space.
template <class... Args>
void log(Severity severity, fmt::format_string<Args...> message, Args&&... args) {
  write_log(severity, fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace distdl
