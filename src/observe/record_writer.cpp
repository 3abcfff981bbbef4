// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/observe/record_writer.hpp>

namespace distdl::observe {
namespace {
void write_whole(int descriptor, std::string_view text, const std::filesystem::path& file) {
  while (!text.empty()) {
    ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    require<StorageError>(n > 0, "cannot write \"{}\": {}", file.string(), errno_text(errno));
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}
bool is_torn(int descriptor, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1 && last != '\n';
}

/// Returns the size that is left. A line that is longer than any row is left where it is.
off_t remove_torn_line(int descriptor, off_t size) {
  constexpr off_t kLongest = 64 << 10;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (::lseek(descriptor, 0, SEEK_END) != size) return size;
  std::string end(static_cast<std::size_t>(std::min(size, kLongest)), '\0');
  const ssize_t n = ::pread(descriptor, end.data(), end.size(), size - static_cast<off_t>(end.size()));
  if (n != static_cast<ssize_t>(end.size())) return size;
  const auto newline = end.rfind('\n');
  if (newline == std::string::npos && size > kLongest) return size;
  const off_t whole = newline == std::string::npos ? 0 : size - static_cast<off_t>(end.size() - newline - 1);
  return ::ftruncate(descriptor, whole) == 0 ? whole : size;
}
}  // namespace

RecordWriter::RecordWriter(std::filesystem::path file, TornLine torn) : file_(std::move(file)) {
  try {
    descriptor_ = open_to_append(file_);
    off_t size = ::lseek(descriptor_.get(), 0, SEEK_END);
    if (torn == TornLine::remove && is_torn(descriptor_.get(), size)) size = remove_torn_line(descriptor_.get(), size);
    torn_ = is_torn(descriptor_.get(), size);
    bytes_ = static_cast<std::uint64_t>(std::max<off_t>(0, size));
  } catch (const StorageError& error) {
    log(Severity::warning, "{}; the run goes on without it", error.what());
  }
}

void RecordWriter::append(const std::string& row) try {
  if (!descriptor_) return;
  const std::string text = (torn_ ? "\n" : "") + row + "\n";
  torn_ = true;
  write_whole(descriptor_.get(), text, file_);
  torn_ = false;
  bytes_ += text.size();
} catch (const StorageError& error) {
  if (!std::exchange(warned_, true))
    log(Severity::warning, "{}; such lines are lost until there is room", error.what());
}

}  // namespace distdl::observe
