// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/observe/trace/log_merge.hpp>

namespace distdl::observe {
namespace {
constexpr std::size_t kMostLineBytes = 64 << 10;  ///< longer lines are cut

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

/// The lines of one log, piece by piece.
class LogMerge::File {
 public:
  File(std::filesystem::path file, std::string host) : file_(std::move(file)), host_(std::move(host)) {}

  void skip_to(std::uint64_t offset) { offset_ = offset; }
  std::uint64_t size() const {
    std::error_code error;
    const auto size = std::filesystem::file_size(file_, error);
    return error ? 0 : size;
  }
  /// Before the first line of a read. Later calls read up to the present end of the file.
  void begin(std::size_t piece, bool all) {
    piece_ = piece;
    end_ = std::max(offset_, size());
    all_ = all;
  }
  /// The next whole line; nothing if there is none up to the end.
  std::optional<LogLine> next() {
    for (;;) {
      const auto newline = rest_.find('\n', at_);
      if (newline != std::string::npos) return line(std::exchange(at_, newline + 1), newline);
      rest_.erase(0, std::exchange(at_, 0));
      const bool is_too_long = rest_.size() > kMostLineBytes;
      const bool more = !is_too_long && fill();
      if (more) continue;
      if (rest_.empty() || !(all_ || is_too_long)) return std::nullopt;
      auto last = line(0, rest_.size());
      rest_.clear();
      return last;
    }
  }

 private:
  LogLine line(std::size_t begin, std::size_t end) {
    last_ = parse_log_line(std::string_view(rest_).substr(begin, end - begin), host_, last_);
    return last_;
  }
  /// False at the end.
  bool fill() try {
    if (offset_ >= end_) return false;
    const FileDescriptor descriptor = open_regular(file_);
    const std::size_t before = rest_.size();
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(piece_, end_ - offset_));
    rest_.resize(before + wanted);
    ssize_t n = 0;
    do n = ::pread(descriptor.get(), rest_.data() + before, wanted, static_cast<off_t>(offset_));
    while (n < 0 && errno == EINTR);
    require<StorageError>(n >= 0, "cannot read \"{}\": {}", file_.string(), errno_text(errno));
    rest_.resize(before + static_cast<std::size_t>(n));
    offset_ += static_cast<std::uint64_t>(n);
    return n > 0;
  } catch (const StorageError& error) {
    if (::access(file_.c_str(), R_OK) != 0 && errno == EACCES) throw;
    end_ = offset_;
    if (error.exit_code() != ExitCode::incomplete && !std::exchange(is_told_, true))
      log(Severity::warning, "{}; its lines are left out", error.what());
    return false;
  }

  std::filesystem::path file_;
  std::string host_;
  std::uint64_t offset_ = 0, end_ = 0;
  std::size_t piece_ = 0, at_ = 0;  ///< `at_`: where the next line begins in `rest_`
  std::string rest_;                ///< read, and not yet a line
  LogLine last_;
  bool all_ = false, is_told_ = false;
};

namespace {
/// Lines that wait until no earlier one can come: those of one time in the order of the files, and of their lines.
class Window {
 public:
  explicit Window(const std::function<void(const LogLine&)>& visit) : visit_(visit) {}
  void add(std::size_t file, LogLine line) {
    bytes_ += line.text.size();
    auto time = line.time;
    lines_.emplace(std::tuple(std::move(time), file, ++count_), std::move(line));
    while (bytes_ > kMostBytes || lines_.size() > kMostLines) pass_first();
  }
  void pass_all() {
    while (!lines_.empty()) pass_first();
  }

 private:
  static constexpr std::size_t kMostBytes = 1 << 20, kMostLines = 1 << 14;  ///< an empty line takes memory, too

  void pass_first() {
    const auto first = lines_.extract(lines_.begin());
    bytes_ -= first.mapped().text.size();
    visit_(first.mapped());
  }

  const std::function<void(const LogLine&)>& visit_;
  std::map<std::tuple<std::string, std::size_t, std::uint64_t>, LogLine> lines_;
  std::size_t bytes_ = 0;
  std::uint64_t count_ = 0;
};
}  // namespace

LogMerge::LogMerge(std::filesystem::path logs) : folder_(std::move(logs)) {}
LogMerge::~LogMerge() = default;

void LogMerge::find_files() {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder_, error);
  require<StorageError>(!error || error == std::errc::no_such_file_or_directory, "cannot read the folder \"{}\": {}",
                        folder_.string(), error.message());
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const auto& path = entry->path();
    if (path.extension() == ".log") files_.try_emplace(path.stem().string(), path, path.stem().string());
  }
}

void LogMerge::read(const std::function<void(const LogLine&)>& visit, bool all) {
  constexpr std::size_t kAllPieces = 16 << 20, kLeastPiece = 16 << 10, kMostPiece = 1 << 20;
  /// The next line of a file; the one with the least time comes first.
  struct Head {
    LogLine line;
    std::size_t number;
    File* file;
    bool operator<(const Head& other) const {
      return std::tie(line.time, number) > std::tie(other.line.time, other.number);
    }
  };
  find_files();
  const auto piece = std::clamp(kAllPieces / std::max<std::size_t>(1, files_.size()), kLeastPiece, kMostPiece);
  std::priority_queue<Head> heads;
  const auto advance = [&heads](std::size_t number, File& file) {
    if (auto line = file.next()) heads.push({*std::move(line), number, &file});
  };
  std::size_t number = 0;
  for (auto& [host, file] : files_) {
    file.begin(piece, all);
    advance(number++, file);
  }
  Window window(visit);
  while (!heads.empty()) {
    const Head head = heads.top();
    heads.pop();
    window.add(head.number, head.line);
    advance(head.number, *head.file);
  }
  window.pass_all();
}

/// By the size of usual lines, for each file may have all of the last ones.
void LogMerge::skip_to_last(std::size_t lines) {
  constexpr std::uint64_t kLineBytes = 512;
  find_files();
  for (auto& [host, file] : files_) {
    const std::uint64_t size = file.size(), kept = (lines + 1) * kLineBytes;
    if (size > kept) file.skip_to(size - kept);
  }
}

}  // namespace distdl::observe
