// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include <fcntl.h>
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
}  // namespace

RecordWriter::RecordWriter(std::filesystem::path file) : file_(std::move(file)) {
  try {
    descriptor_ = open_regular(file_, O_RDWR | O_APPEND | O_CREAT);
    const off_t size = ::lseek(descriptor_.get(), 0, SEEK_END);
    char last = '\n';
    torn_ = size > 0 && ::pread(descriptor_.get(), &last, 1, size - 1) == 1 && last != '\n';
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
} catch (const StorageError& error) {
  if (!std::exchange(warned_, true))
    log(Severity::warning, "{}; such lines are lost until there is room", error.what());
}

}  // namespace distdl::observe
