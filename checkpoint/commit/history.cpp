// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <chrono>
#include <sstream>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/history.hpp>
#include <distdl/checkpoint/format/layout.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;
constexpr std::uint64_t kLongHistory = 4 << 20;  // about 40,000 events
constexpr std::uint64_t kLongest = 64 << 20;     // nobody's work: not read
constexpr std::size_t kLongestNote = 2000;
constexpr std::size_t kLongestLine = 64 << 10;  // bytes; what nests deeply costs hundreds of times its text

constexpr std::array kFates{Fate::taken,     Fate::saved,     Fate::failed,
                            Fate::abandoned, Fate::collected, Fate::quarantined};

std::optional<Fate> fate_called(const std::string& name) {
  for (Fate fate : kFates)
    if (name_of(fate) == name) return fate;
  return std::nullopt;
}

std::optional<Event> event_of(const std::string& line) {
  if (line.size() > kLongestLine) return std::nullopt;
  auto row = json::parse(line, nullptr, false);
  if (!row.is_object()) return std::nullopt;
  auto number = [&](const char* key) {
    auto found = row.find(key);
    return found != row.end() ? as_whole<std::int64_t>(*found) : std::nullopt;
  };
  auto text = [&](const char* key) {
    auto found = row.find(key);
    return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  auto fate = fate_called(text("event"));
  if (!fate) return std::nullopt;
  Event event{number("time").value_or(0),      *fate, std::nullopt, text("reason"), number("keep").value_or(0),
              number("keep_every").value_or(0)};
  if (auto step = number("step")) event.step = Step(*step);
  return event;
}
}  // namespace

std::string_view name_of(Fate fate) {
  switch (fate) {
    case Fate::taken:
      return "taken";
    case Fate::saved:
      return "saved";
    case Fate::failed:
      return "failed";
    case Fate::abandoned:
      return "abandoned";
    case Fate::collected:
      return "collected";
    case Fate::quarantined:
      return "quarantined";
  }
  return "?";
}

std::string to_text(const Event& event) {
  json row{{"time", event.time != 0 ? event.time : static_cast<std::int64_t>(seconds_since_1970())},
           {"event", name_of(event.fate)}};
  if (event.step) row["step"] = event.step->value;
  if (!event.reason.empty()) row["reason"] = event.reason.substr(0, kLongestNote);
  if (event.fate == Fate::taken) row["keep"] = event.keep, row["keep_every"] = event.keep_every;
  return "\n" + row.dump(-1, ' ', false, json::error_handler_t::replace);
}

void note(FileSystem& files, const Path& root, const Event& event) noexcept try {
  std::string line = to_text(event);
  Path path = root / kHistoryName;
  // Not an OpenFile: with O_APPEND pwrite adds at the end whatever the offset, also beside another writer.
  int descriptor = files.open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (descriptor < 0) throw FileError("open", path, errno);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    files.close(descriptor);
    throw FileError(path, status.st_mode, "a regular file");
  }
  ssize_t n = files.pwrite(descriptor, std::as_bytes(std::span(line)).data(), line.size(), 0);
  int number = n < 0 ? errno : ENOSPC;
  files.close(descriptor);
  if (n != static_cast<ssize_t>(line.size())) throw FileError("write", path, number);
} catch (const std::exception& error) {
  log(Severity::debug, "an event was not recorded: {}", error.what());
}

std::vector<Event> events_in(const std::string& text) {
  std::vector<Event> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (auto event = event_of(line)) events.push_back(std::move(*event));
  return events;
}

std::vector<Event> read_history(FileSystem& files, const Path& root) {
  return events_in(read_text(files, root / kHistoryName, kLongest).value_or(""));
}

void shorten_history(FileSystem& files, const Path& root) noexcept try {
  auto text = read_text(files, root / kHistoryName, kLongest);
  if (!text || text->size() <= kLongHistory) return;
  replace_text(files, root / kHistoryName, text->substr(text->find('\n', text->size() - kLongHistory / 2)));
} catch (const std::exception& error) {
  log(Severity::debug, "{} was not shortened: {}", kHistoryName, error.what());
}

}  // namespace distdl::checkpoint
