// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <tuple>
#include <utility>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/program/event_file.hpp>
#include <distdl/program/progress_file.hpp>

namespace distdl::program {
namespace {
bool is_event_file(const std::filesystem::path& path) {
  return path.filename().string().starts_with("events.out.tfevents");
}

std::optional<struct stat> status_of(const std::filesystem::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}

/// The last line that is not empty.
std::string last_line(std::string text) {
  text.erase(std::find_if(text.rbegin(), text.rend(), [](char c) { return c > ' ' || c < 0; }).base(), text.end());
  return text.substr(text.find_last_of("\n\r") + 1);
}
}  // namespace

ProgressFile::ProgressFile(std::filesystem::path path, const Patterns& patterns)
    : path_(std::move(path)), patterns_(patterns) {
  for (const auto& file : files())
    if (const auto status = status_of(file)) {
      File& known = known_[file] = file_of(*status);
      known.done = static_cast<std::uint64_t>(status->st_size);
    }
}

ProgressFile::File ProgressFile::file_of(const struct stat& status) {
  return {.bytes = status.st_size, .seconds = status.st_mtim.tv_sec, .nanoseconds = status.st_mtim.tv_nsec};
}

/// The file itself, or the event files of the folder, by their names, which begin with their times.
std::vector<std::filesystem::path> ProgressFile::files() const {
  constexpr std::size_t kMost = 1000;
  std::error_code error;
  if (!std::filesystem::is_directory(path_, error)) return {path_};
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator one(path_, error), end; !error && one != end && found.size() < kMost;
       one.increment(error))
    if (is_event_file(one->path())) found.push_back(one->path());
  std::ranges::sort(found);
  return found;
}

ProgressFile::Seen ProgressFile::look() {
  Seen seen;
  for (const auto& file : files()) look_at(file, seen);
  return seen;
}

void ProgressFile::look_at(const std::filesystem::path& path, Seen& seen) try {
  const auto status = status_of(path);
  if (!status) return;
  const File now = file_of(*status);
  File& known = known_[path];
  const bool is_behind = is_event_file(path) && !known.is_damaged && known.done < static_cast<std::uint64_t>(now.bytes);
  const bool has_changed =
      std::tie(now.bytes, now.seconds, now.nanoseconds) != std::tie(known.bytes, known.seconds, known.nanoseconds);
  if (!has_changed && !is_behind) return;
  std::tie(known.bytes, known.seconds, known.nanoseconds) = std::tie(now.bytes, now.seconds, now.nanoseconds);
  seen.has_changed = seen.has_changed || has_changed;
  if (!is_event_file(path)) return look_at_line(path, seen);
  if (!known.is_damaged) look_at_events(path, known, seen);
} catch (const StorageError& error) {
  log(Severity::debug, "{}", error.what());
}

void ProgressFile::look_at_line(const std::filesystem::path& path, Seen& seen) const {
  constexpr std::size_t kMost = 4096;
  const auto line = last_line(read_end_of_regular(path, kMost));
  auto facts = patterns_.look(line);
  if (std::int64_t step = 0; !facts.step) {
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), step);
    if (parsed.ec == std::errc{} && parsed.ptr == line.data() + line.size()) facts.step = step;
  }
  if (facts.step || !facts.metrics.empty()) seen.facts.push_back(std::move(facts));
}

void ProgressFile::look_at_events(const std::filesystem::path& path, File& file, Seen& seen) {
  constexpr std::size_t kMost = 2 * kLargestEvent, kMostSteps = 10000;
  if (file.done > static_cast<std::uint64_t>(file.bytes)) file.done = 0;  // it was written anew
  const FileDescriptor opened = open_regular(path);
  std::string bytes(kMost, '\0');
  const ssize_t count = ::pread(opened.get(), bytes.data(), bytes.size(), static_cast<off_t>(file.done));
  if (count <= 0) return;
  bytes.resize(static_cast<std::size_t>(count));
  const auto done = read_events(bytes, [&](const EventScalars& event) {
    if (seen.facts.size() >= kMostSteps) return;
    if (seen.facts.empty() || seen.facts.back().step != event.step) seen.facts.push_back({.step = event.step});
    auto& metrics = seen.facts.back().metrics;
    metrics.insert(metrics.end(), event.values.begin(), event.values.end());
  });
  if (done) {
    file.done += *done;
    return;
  }
  file.is_damaged = true;
  log(Severity::warning, "\"{}\" is no event file of TensorBoard: what it has is not read", printable(path.string()));
}

}  // namespace distdl::program
