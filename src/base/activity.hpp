// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <distdl/base/activity_page.hpp>
#include <distdl/base/ids.hpp>

// A rank shows what it is at to the process that started it. In a process that nobody asked to, and in threads that do
// not show themselves, these functions do nothing. They cost some relaxed stores; those of a phase read the clock too.
namespace distdl {

/// Shows this process in the memory that its starter has given it, if it has. The calling thread is the one that
/// trains. From now on a signal (SIGRTMIN + 7) makes a thread tell its stack. Call it once, before other threads start.
/// Throws ConfigError if DISTDL_ACTIVITY is no such memory.
void show_activity();

/// While it lives, the calling thread shows itself too, by this name of at most 15 characters. If the page has no room,
/// it does not.
class ShownThread {
 public:
  explicit ShownThread(const char* name);
  ~ShownThread();
  ShownThread(const ShownThread&) = delete;
  ShownThread& operator=(const ShownThread&) = delete;

 private:
  bool is_shown_ = false;  ///< by this object
};

/// While it lives, the calling thread reads this file, or waits for another thread that does.
class ShownFile {
 public:
  explicit ShownFile(std::string_view file) noexcept;
  ~ShownFile();
  ShownFile(const ShownFile&) = delete;
  ShownFile& operator=(const ShownFile&) = delete;
};

/// The calling thread begins this.
void enter_phase(RankPhase phase) noexcept;
/// How many steps the calling thread has done.
void show_step(Step step) noexcept;
/// The calling thread waits in an operation: name and number, its bytes, and the rank for which it waits. To be called
/// again and again; the first call for an operation counts as its beginning.
void show_wait(const char* name, std::uint32_t sequence, std::uint64_t bytes, std::optional<Rank> awaited) noexcept;
/// The calling thread waits for that of this name, and so for what that one waits for.
void show_wait_of(const char* thread) noexcept;
/// The wait is over.
void end_wait() noexcept;

}  // namespace distdl
