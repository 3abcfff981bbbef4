// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/signals.hpp>

namespace distdl {

enum class Key { character, up, down, left, right, page_up, page_down, home, end, enter, escape, unknown };

struct KeyPress {
  Key key = Key::character;
  char character = 0;  ///< printable ASCII or a control character, if `key` is Key::character
  friend bool operator==(const KeyPress&, const KeyPress&) = default;
};

/// The keys of what a terminal sent. Takes them from the front of `bytes`; an escape sequence that has just begun
/// stays. Bytes that are not ASCII are dropped.
std::vector<KeyPress> take_keys(std::string& bytes);

/// The terminal of this process as one screen and its keys, until the object is destroyed. The terminal gets back the
/// modes that it had: also if a signal ends the process, or it crashes, and while it is stopped (Ctrl-Z). Signals that
/// end the process do so. Nothing here throws; output is dropped as by write_console(). One object at a time, used by
/// one thread; other threads must block signals, see SignalsBlocked.
class Terminal {
 public:
  /// `in`: descriptor of the keys; `out`: descriptor of the screen. is_open() returns whether both are usable
  /// terminals.
  Terminal(int in, int out) noexcept;
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool is_open() const noexcept { return signals_.has_value(); }
  /// The console: features and size of the screen.
  const Console& console() const noexcept { return console_; }

  /// Shows these lines from the top; they must fit. Sends only those that differ from what is there.
  void show(const std::vector<std::string>& lines) noexcept;
  /// The next show() sends all lines.
  void forget() noexcept { shown_.clear(); }

  enum class Event { nothing, key, resized, closed };
  struct Input {
    Event event = Event::nothing;
    KeyPress press = {};  ///< the key, if `event` is Event::key
  };
  /// Waits for a key or another size, at most so long. `closed`: the terminal is gone. While the process is stopped by
  /// Ctrl-Z, this does not return; afterwards it returns `resized`.
  Input wait(Milliseconds timeout) noexcept;

 private:
  void enter() noexcept;
  void stop() noexcept;
  std::optional<Input> pending_signal() noexcept;
  bool read_keys(bool has_hung_up) noexcept;

  int in_;
  Console console_;
  sigset_t mask_before_{};
  std::optional<Signals> signals_;
  std::string bytes_;  ///< read, and not yet whole keys
  std::vector<KeyPress> keys_;
  std::vector<std::string> shown_;
};

}  // namespace distdl
