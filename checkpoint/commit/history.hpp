// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/files/file_operations.hpp>

// <root>/HISTORY records what happened to each step, one JSON object per line. It answers "why is that checkpoint not
// there?". HISTORY is a hint for people: saving, restoring and deleting do not depend on it, it is not synced, and
// lines may be lost. (If an older distdl wrote OWNER, tools read the retention rule from HISTORY.)
namespace distdl::checkpoint {

enum class Fate {
  taken,        ///< a run took the folder; the event has its retention rule
  saved,        ///< committed
  failed,       ///< the save failed
  abandoned,    ///< a run that took the folder removed the stage of an unfinished save
  collected,    ///< deleted because there were enough newer ones
  quarantined,  ///< moved to quarantine because it was damaged or replaced
};
std::string_view name_of(Fate fate);

struct Event {
  std::int64_t time = 0;  ///< seconds since 1970
  Fate fate = Fate::taken;
  std::optional<Step> step{};
  std::string reason{};
  std::int64_t keep = 0, keep_every = 0;  ///< for Fate::taken: the retention rule of that run
};

/// The line of an event. Time 0 stands for now. The line begins with a newline, so that it also ends a partial line
/// that was left by a full disk.
std::string to_text(const Event& event);
/// Parses lines into events, oldest first. Invalid lines are skipped.
std::vector<Event> events_in(const std::string& text);

/// Appends a line. Never fails: an event that cannot be written is lost. Time 0 stands for now.
void note(FileSystem& files, const Path& root, const Event& event) noexcept;
/// All events, oldest first. Invalid lines are skipped. Throws StorageError if the file cannot be read.
std::vector<Event> read_history(FileSystem& files, const Path& root);
/// Removes the older half of a history that has become long. Never fails.
void shorten_history(FileSystem& files, const Path& root) noexcept;

}  // namespace distdl::checkpoint
