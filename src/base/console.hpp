// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl {

/// Writes to a console if possible. Output that cannot be written is dropped: there is no such descriptor, the terminal
/// is closed, a pipe has no reader, or a disk is full. If a stopped terminal or an unread pipe accepts nothing for a
/// second, all output is dropped until it accepts bytes again.
void write_console(int descriptor, std::string_view text) noexcept;

/// How much a command says on the console. Log files and results do not depend on it.
enum class Verbosity {
  quiet,   ///< warnings and errors
  normal,  ///< also progress and what a run does
  verbose  ///< also details
};
/// Sets the verbosity of this process; it is normal at the start.
void set_verbosity(Verbosity verbosity) noexcept;
Verbosity verbosity() noexcept;

/// Each later line of this process on a console begins with its time ("2026-11-26T18:59:08 ", local), unless the
/// console is a terminal. Call it before other threads write.
void show_line_times() noexcept;

enum class Colour { none, red, green, yellow, cyan };
/// The text in this colour.
std::string coloured(std::string_view text, Colour colour);
/// A bar of `width` columns, filled from the left; `fraction` is from 0 to 1. It consists of block characters, or of
/// ASCII without UTF-8.
std::string progress_bar(double fraction, int width, bool with_utf8);

/// A descriptor as a place where a person reads: what it can show, and one status line, such as a progress bar, below
/// the lines that stay. Nothing here throws, and output is dropped as by write_console().
class Console {
 public:
  /// Looks at the descriptor and at the environment: TERM=dumb (or none) is a terminal without a status line, NO_COLOR
  /// (https://no-color.org) one without colours, and LC_ALL, LC_CTYPE or LANG decide whether it shows UTF-8.
  explicit Console(int descriptor) noexcept;

  /// True if the descriptor is a terminal that can move its cursor.
  bool is_terminal() const noexcept { return is_terminal_; }
  bool has_colour() const noexcept { return has_colour_; }
  bool has_utf8() const noexcept { return has_utf8_; }
  /// Columns at this moment; 80 if the number is unknown.
  int width() const noexcept;
  /// Lines at this moment; 24 if the number is unknown.
  int height() const noexcept;

  /// The text in this colour, if the console has colours.
  std::string coloured(std::string_view text, Colour colour) const;
  /// A progress_bar() of characters that the console can show.
  std::string bar(double fraction, int width) const;

  /// Writes a line that stays, in place of the status. See show_line_times().
  void line(std::string_view text) const noexcept;
  /// Shows this status instead of the one before, cut to the width. Only on a terminal.
  void status(std::string_view text) const noexcept;
  void clear_status() const noexcept;

 private:
  int descriptor_;
  bool is_terminal_ = false, has_colour_ = false, has_utf8_ = false;
};

/// The beginning of `text` that fits into so many columns. Escape sequences ("\033[36m") take none, and all of them are
/// kept; each character of UTF-8 takes one.
std::string cut_to_width(std::string_view text, int columns);
/// As cut_to_width(); if something was cut off, the last column is a mark, "…" or, without UTF-8, "~".
std::string cut_with_mark(std::string_view text, int columns, bool with_utf8);
/// The text in lines of at most so many columns, broken at spaces; the lines after the first one begin with `indent`
/// spaces. A word that is longer has a line of its own. If `columns` is not greater than `indent`, nothing is broken.
std::string wrapped(std::string_view text, int columns, int indent);
/// The columns that the text takes, counted in the same way.
int width_of(std::string_view text);

}  // namespace distdl
