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

/// "debug", "info", "warning" or "error". Throws ConfigError otherwise.
Severity severity_from(std::string_view name);

struct LogOptions {
  Severity level = Severity::info;
  bool console = true;         ///< to stderr; usually rank 0 only
  std::filesystem::path file;  ///< appended to; empty: none. Ranks of a node may share it: lines are written whole
  std::string host;
  int rank = -1;  ///< -1: not a rank (the supervisor, a tool)
};

/// Starts logging for this process. Before it is called, warnings and errors go to stderr, all else nowhere.
/// Throws StorageError if the file cannot be opened.
void start_logging(const LogOptions& options);
/// The step that later lines of this process carry as an attribute.
void set_log_step(Step step);
/// The rank that later lines of the calling thread carry, for ranks that are threads.
void set_log_rank(Rank rank);

void write_log(Severity severity, const std::string& message);

/// The function that detects an error logs it; callers only pass it on. Lower case, values after a space.
template <class... Args>
void log(Severity severity, fmt::format_string<Args...> message, Args&&... args) {
  write_log(severity, fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace distdl
