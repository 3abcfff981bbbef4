// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/observe/open_metrics.hpp>

namespace distdl::observe {
namespace {
/// Empty: a rename may put a regular file there. Else what is there instead.
std::string obstacle(const std::filesystem::path& file) {
  struct stat info {};
  if (::lstat(file.c_str(), &info) == 0) return S_ISREG(info.st_mode) ? "" : std::string(kind_of(info.st_mode));
  return errno == ENOENT ? "" : errno_text(errno);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  const FileDescriptor descriptor = open_regular(file, O_WRONLY | O_CREAT | O_TRUNC);
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    require<StorageError>(n > 0, "cannot write \"{}\": {}", file.string(), errno_text(errno));
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}
}  // namespace

void check_metrics_file(const std::filesystem::path& file) {
  const std::string what = obstacle(file);
  require(what.empty(),
          "log.openmetrics = \"{}\" is {}, which a file of metrics would replace; name a new file or a regular one",
          file.string(), what);
  const auto folder = folder_of(file);
  std::error_code error;
  require(std::filesystem::is_directory(folder, error),
          "log.openmetrics = \"{}\": there is no folder \"{}\"; make it, or name the folder that node_exporter reads "
          "(--collector.textfile.directory)",
          file.string(), folder.string());
  const auto probe = folder / ("." + file.filename().string() + ".distdl-check");
  try {
    static_cast<void>(open_regular(probe, O_WRONLY | O_CREAT));
  } catch (const StorageError& failure) {
    throw ConfigError(
        fmt::format("log.openmetrics = \"{}\": this user cannot write there: {}", file.string(), failure.what()));
  }
  std::filesystem::remove(probe, error);
}

OpenMetrics::OpenMetrics(const Options& options, std::string run)
    : file_(options.openmetrics), gauges_(std::move(run)) {
  if (!file_.empty()) check_metrics_file(file_);
  if (!options.openmetrics_listen.empty())
    endpoint_.emplace(endpoint_address(options.openmetrics_listen), [this] { return gauges_.text(); });
}

void OpenMetrics::take(const RecordKind& kind, const nlohmann::ordered_json& row) {
  gauges_.take(kind, row);
  if (Clock::now() >= next_) write();
}

void OpenMetrics::write() try {
  if (file_.empty()) return;
  next_ = Clock::now() + kPeriod;
  const std::string what = obstacle(file_);
  require<StorageError>(what.empty(), "\"{}\" is {} now", file_.string(), what);
  const auto beside = folder_of(file_) / ("." + file_.filename().string() + ".distdl");
  write_file(beside, gauges_.text());
  const bool is_in_place = ::rename(beside.c_str(), file_.c_str()) == 0;
  require<StorageError>(is_in_place, "cannot replace \"{}\": {}", file_.string(), errno_text(errno));
} catch (const StorageError& error) {
  if (!std::exchange(warned_, true)) log(Severity::warning, "{}; log.openmetrics is not written", error.what());
}

}  // namespace distdl::observe
