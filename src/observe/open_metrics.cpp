// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
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

/// OpenMetrics: a name with a unit ends with it.
std::string_view unit_of(std::string_view metric) {
  static constexpr std::array<std::string_view, 3> kUnits{"seconds", "bytes", "ratio"};
  for (const std::string_view unit : kUnits)
    if (metric.ends_with(unit)) return unit;
  return "";
}

std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
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

OpenMetrics::OpenMetrics(std::filesystem::path file, std::string run) : file_(std::move(file)), run_(std::move(run)) {
  const std::string what = obstacle(file_);
  require(what.empty(),
          "log.openmetrics = \"{}\" is {}, which a file of metrics would replace; name a new file or a regular one",
          file_.string(), what);
  std::error_code error;
  require(std::filesystem::is_directory(folder_of(file_), error),
          "log.openmetrics = \"{}\": there is no folder \"{}\"; make it, or name the folder that node_exporter reads "
          "(--collector.textfile.directory)",
          file_.string(), folder_of(file_).string());
}

void OpenMetrics::take(const RecordKind& kind, const nlohmann::ordered_json& row) {
  for (const Field& field : common_fields()) take(field, row);
  for (const Field& field : kind.fields) take(field, row);
  if (Clock::now() >= next_) write();
}

void OpenMetrics::take(const Field& field, const nlohmann::ordered_json& row) {
  if (field.metric.empty()) return;
  const auto value = row.find(field.name);
  if (value != row.end() && value->is_number()) gauges_[field.metric] = {&field, value->get<double>()};
}

std::string OpenMetrics::text() const {
  std::string text;
  const std::string run = escaped_label(run_);
  for (const auto& [name, gauge] : gauges_) {
    text += fmt::format("# TYPE {} gauge\n", name);
    if (const auto unit = unit_of(name); !unit.empty()) text += fmt::format("# UNIT {} {}\n", name, unit);
    text += fmt::format("# HELP {} {}\n{}{{run=\"{}\"}} {}\n", name, gauge.field->meaning, name, run, gauge.value);
  }
  return text + "# EOF\n";
}

void OpenMetrics::write() try {
  next_ = Clock::now() + kPeriod;
  const std::string what = obstacle(file_);
  require<StorageError>(what.empty(), "\"{}\" is {} now", file_.string(), what);
  const auto beside = folder_of(file_) / ("." + file_.filename().string() + ".distdl");
  write_file(beside, text());
  const bool is_in_place = ::rename(beside.c_str(), file_.c_str()) == 0;
  require<StorageError>(is_in_place, "cannot replace \"{}\": {}", file_.string(), errno_text(errno));
} catch (const StorageError& error) {
  if (!std::exchange(warned_, true)) log(Severity::warning, "{}; log.openmetrics is not written", error.what());
}

std::string escaped_label(std::string_view value) {
  return escaped(value, "\\\"");
}

}  // namespace distdl::observe
