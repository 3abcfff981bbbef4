// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <vector>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/observe/record_lines.hpp>

namespace distdl::observe {
namespace {
constexpr std::size_t kPiece = 1 << 20;
}  // namespace

void RecordLines::take(std::string_view piece) {
  for (auto end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
    add(piece.substr(0, end));
    finish();
    piece.remove_prefix(end + 1);
  }
  add(piece);
}

void RecordLines::finish() {
  if (!too_long_)
    if (const auto record = records::parse_row(line_)) visit_(*record);
  line_.clear();
  too_long_ = false;
}

void RecordLines::add(std::string_view part) {
  too_long_ = too_long_ || part.size() > records::kLongestLine - line_.size();
  if (!too_long_) line_ += part;
}

void read_records(const std::filesystem::path& file, const std::function<void(const records::Row&)>& visit,
                  std::size_t most) {
  const FileDescriptor descriptor = open_regular(file);
  const off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  off_t at = std::max<off_t>(0, size - static_cast<off_t>(most));
  RecordLines lines(visit);
  if (at > 0) lines.skip_one();
  std::vector<char> piece(std::min(kPiece, most));
  while (at < size) {
    const ssize_t n = ::pread(descriptor.get(), piece.data(), piece.size(), at);
    if (n < 0 && errno == EINTR) continue;
    require<StorageError>(n >= 0, "cannot read \"{}\": {}", file.string(), errno_text(errno));
    if (n == 0) break;
    lines.take({piece.data(), static_cast<std::size_t>(n)});
    at += n;
  }
  lines.finish();
}

namespace {
/// Warns once for each file, because a command reads some of them several times.
void warn_once(const std::filesystem::path& file, const StorageError& error) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(file.string()).second) log(Severity::warning, "{}; what it tells is not known", error.what());
}
}  // namespace

void for_each_record(const std::filesystem::path& file, const std::function<void(const records::Row&)>& visit,
                     std::size_t most) try {
  read_records(file, visit, most);
} catch (const StorageError& error) {
  if (error.exit_code() == ExitCode::incomplete) return;
  if (::access(file.c_str(), R_OK) != 0 && errno == EACCES) return warn_once(file, error);
  log(Severity::debug, "not read: {}", error.what());  // its writer warns
}

}  // namespace distdl::observe
