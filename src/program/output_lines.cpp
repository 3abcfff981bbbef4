// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/local_time.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/program/output_lines.hpp>

namespace distdl::program {
namespace {
std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06d}", in_local_time(seconds),
                     static_cast<int>((seconds - static_cast<double>(whole)) * 1e6));
}
}  // namespace

OutputFile::OutputFile(const std::filesystem::path& logs, const std::string& host, int rank)
    : file_(logs / fmt::format("{}.rank-{}.log", host, rank)),
      before_(logs / fmt::format("{}.rank-{}.before.log", host, rank)),
      head_(fmt::format(" info host={} rank={} | ", printable(host), rank)) {
  open();
}

void OutputFile::open() try {
  descriptor_ = open_to_append(file_);
  struct stat status {};
  bytes_ = ::fstat(descriptor_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
} catch (const StorageError& error) {
  descriptor_.reset();
  if (!std::exchange(is_told_, true))
    log(Severity::warning, "{}; the output of this rank is only on the console", error.what());
}

void OutputFile::write(std::string_view line) {
  if (!descriptor_) return;
  if (bytes_ > kMost) {
    if (real_file_system().rename(file_.c_str(), before_.c_str(), 0) != 0) return;
    open();
    if (!descriptor_) return;
  }
  const std::string whole = time_text(seconds_since_1970()) + head_ + std::string(line) + "\n";
  std::string_view rest = whole;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  bytes_ += whole.size() - rest.size();
}

}  // namespace distdl::program
