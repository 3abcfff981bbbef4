// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <utility>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/observe/log_merge.hpp>

namespace distdl::observe {
namespace {
constexpr std::size_t kMostLineBytes = 64 << 10;  ///< longer lines are cut
constexpr std::size_t kLogPiece = 1 << 20;

/// "2026-03-01T12:00:00", with or without a fraction.
bool is_time(std::string_view text) {
  constexpr std::string_view kPattern = "0000-00-00T00:00:00";
  if (text.size() < kPattern.size()) return false;
  for (std::size_t i = 0; i < kPattern.size(); ++i)
    if (kPattern[i] == '0' ? !std::isdigit(static_cast<unsigned char>(text[i])) : text[i] != kPattern[i]) return false;
  return true;
}

Severity severity_in(std::string_view word) {
  for (const auto& [name, severity] : {std::pair("debug", Severity::debug), std::pair("warning", Severity::warning),
                                       std::pair("error", Severity::error)})
    if (word == name) return severity;
  return Severity::info;
}
}  // namespace

LogLine parse_log_line(std::string_view text, const std::string& host, const LogLine& before) {
  LogLine line{before.time, before.severity, host, std::string(text.substr(0, kMostLineBytes))};
  const auto space = text.find(' ');
  if (!is_time(text.substr(0, space))) return line;
  line.time = text.substr(0, space);
  std::string_view rest = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  line.severity = severity_in(rest.substr(0, rest.find(' ')));
  return line;
}

LogMerge::LogMerge(std::filesystem::path logs) : folder_(std::move(logs)) {}

void LogMerge::find_files() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error))
    if (entry.path().extension() == ".log") files_.try_emplace(entry.path().stem().string());
}

void LogMerge::read_file(const std::string& host, File& file, std::vector<LogLine>& lines, bool all) try {
  const FileDescriptor descriptor = open_regular(folder_ / (host + ".log"));
  std::string piece(kLogPiece, '\0');
  for (ssize_t n = 0;;) {
    n = ::pread(descriptor.get(), piece.data(), piece.size(), static_cast<off_t>(file.offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    file.offset += static_cast<std::uint64_t>(n);
    file.rest.append(piece, 0, static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (auto end = file.rest.find('\n'); end != std::string::npos; end = file.rest.find('\n', begin)) {
      file.last = parse_log_line(std::string_view(file.rest).substr(begin, end - begin), host, file.last);
      lines.push_back(file.last);
      begin = end + 1;
    }
    file.rest.erase(0, begin);
    if (file.rest.size() > kMostLineBytes)
      lines.push_back(parse_log_line(std::exchange(file.rest, {}), host, file.last));
  }
  if (all && !file.rest.empty()) lines.push_back(parse_log_line(std::exchange(file.rest, {}), host, file.last));
} catch (const StorageError&) {  // a log that cannot be read (any more) has no lines
}

void LogMerge::read(const std::function<void(const LogLine&)>& visit, bool all) {
  find_files();
  std::vector<LogLine> lines;
  for (auto& [host, file] : files_) read_file(host, file, lines, all);
  std::stable_sort(lines.begin(), lines.end(), [](const LogLine& a, const LogLine& b) { return a.time < b.time; });
  for (const LogLine& line : lines) visit(line);
}

/// By the size of usual lines, for each file may have all of the last ones.
void LogMerge::skip_to_last(std::size_t lines) {
  constexpr std::uint64_t kLineBytes = 512;
  find_files();
  for (auto& [host, file] : files_) {
    std::error_code error;
    const auto size = std::filesystem::file_size(folder_ / (host + ".log"), error);
    const std::uint64_t kept = (lines + 1) * kLineBytes;
    if (error || size <= kept) continue;
    file.offset = size - kept;
  }
}

}  // namespace distdl::observe
