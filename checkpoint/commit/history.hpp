// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>

// <root>/HISTORY: what became of each step, one JSON object per line. It answers "why is that checkpoint not there?".
// A hint for people: nothing that is saved, restored or deleted depends on it, it is not synced, and lines may be lost.
// (Where an older distdl made OWNER, a tool has the rule of retention from here.)
namespace distdl::checkpoint {

enum class Fate {
  taken,        ///< a run took the folder; with its rule of retention
  saved,        ///< committed
  failed,       ///< the save failed
  abandoned,    ///< a run that took the folder removed the stage of a save that had not come to its end
  collected,    ///< deleted because newer ones were enough
  quarantined,  ///< found damaged, or replaced
};
std::string_view name_of(Fate fate);

struct Event {
  std::int64_t time = 0;  ///< seconds since 1970
  Fate fate = Fate::taken;
  std::optional<Step> step{};
  std::string reason{};
  std::int64_t keep = 0, keep_every = 0;  ///< of Fate::taken: the rule of that run
};

/// The line of an event, whose time 0 stands for now. It begins with the newline, so that it ends whatever half a line
/// a full disk left before.
std::string to_text(const Event& event);
/// The events of such lines, oldest first; lines that make no sense are left out.
std::vector<Event> events_in(const std::string& text);

/// Adds a line. Never fails: what cannot be written is lost. Time 0 stands for now.
void note(FileSystem& files, const Path& root, const Event& event) noexcept;
/// All events, oldest first; lines that make no sense are left out. Throws StorageError if the file cannot be read.
std::vector<Event> read_history(FileSystem& files, const Path& root);
/// Drops the older half of a history that has grown long. Never fails.
void shorten_history(FileSystem& files, const Path& root) noexcept;

}  // namespace distdl::checkpoint
