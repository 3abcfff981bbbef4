// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/metrics/open_metrics.hpp>

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
/// A crash may lose the newest values, for which no step should wait.
void replace_unsynced(const std::filesystem::path& file, std::string_view text) {
  const auto fresh = file.parent_path() / fmt::format(".{}.{}", file.filename().string(), random_hex(8));
  OpenFile out(real_file_system(), fresh, OpenFile::Mode::create);
  try {
    out.write_at(std::as_bytes(std::span(text)), 0);
    out.close();  // before it has its name: a network file system writes now, and tells of a full disk
    if (real_file_system().rename(fresh.c_str(), file.c_str(), 0) != 0) throw FileError("replace", file, errno);
  } catch (...) {
    remove_file(fresh);
    throw;
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
  try {
    const OpenFile probe(real_file_system(), resolved(folder) / fmt::format(".distdl-check.{}", random_hex(8)),
                         OpenFile::Mode::create);
    remove_file(probe.path());
  } catch (const StorageError& failure) {
    throw ConfigError(
        fmt::format("log.openmetrics = \"{}\": this user cannot write there: {}", file.string(), failure.what()));
  }
}

OpenMetrics::OpenMetrics(const Options& options, std::string run)
    : file_(options.openmetrics), gauges_(std::move(run)) {
  if (!file_.empty()) check_metrics_file(file_);
  if (!options.openmetrics_listen.empty())
    endpoint_.emplace(endpoint_address(options.openmetrics_listen), [this] { return gauges_.text(); });
}

void OpenMetrics::take(const records::Row& row) {
  gauges_.take(row);
  if (Clock::now() >= next_) write();
}

void OpenMetrics::write() try {
  if (file_.empty()) return;
  next_ = Clock::now() + kPeriod;
  const std::string what = obstacle(file_);
  require<StorageError>(what.empty(), "\"{}\" is {} now", file_.string(), what);
  replace_unsynced(resolved_place(file_), gauges_.text());
} catch (const StorageError& error) {
  if (!std::exchange(warned_, true)) log(Severity::warning, "{}; log.openmetrics is not written", error.what());
}

}  // namespace distdl::observe
