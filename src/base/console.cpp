// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <climits>
#include <ctime>
#include <exception>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <distdl/base/console.hpp>
#include <distdl/base/env.hpp>

namespace distdl {
namespace {
constexpr int kPatienceMs = 1000;

/// A run must not wait at each line for a console that took nothing the last time.
std::atomic<bool> stuck{false};

std::atomic<Verbosity> chosen_verbosity{Verbosity::normal};

std::atomic<bool> lines_have_times{false};

/// With a space behind it.
std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::array<char, 32> text{};
  if (::localtime_r(&now, &local) == nullptr) return "";
  return std::string(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S ", &local));
}

/// To the begin of the line, and clears it.
constexpr std::string_view kClearLine = "\r\033[K";

/// By the first of the variables that is set, as the C library decides.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (auto value = env(name)) {
      for (char& c : *value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return value->find("utf-8") != std::string::npos || value->find("utf8") != std::string::npos;
    }
  return false;
}

constexpr const char* sequence_of(Colour colour) {
  switch (colour) {
    case Colour::red:
      return "\033[31m";
    case Colour::green:
      return "\033[32m";
    case Colour::yellow:
      return "\033[33m";
    case Colour::cyan:
      return "\033[36m";
    case Colour::none:
      break;
  }
  return "";
}

/// Bytes of the escape sequence with which `text` begins; 0: none.
std::size_t sequence_at(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const auto end = text.find_first_of("ABCDEFGHJKSTfmsu", 2);
  return end == std::string_view::npos ? text.size() : end + 1;
}
}  // namespace

void set_verbosity(Verbosity verbosity) noexcept {
  chosen_verbosity = verbosity;
}

Verbosity verbosity() noexcept {
  return chosen_verbosity;
}

void show_line_times() noexcept {
  lines_have_times = true;
}

void write_console(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    pollfd polled{descriptor, POLLOUT, 0};
    const int ready = ::poll(&polled, 1, stuck ? 0 : kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    stuck = ready == 0;
    if (ready <= 0) return;
    // A pipe that is ready takes so much without blocking.
    const ssize_t n = ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string cut_to_width(std::string_view text, int columns) {
  std::string result;
  for (int column = 0; !text.empty();) {
    if (const auto sequence = sequence_at(text); sequence > 0) {
      result += text.substr(0, sequence);
      text.remove_prefix(sequence);
      continue;
    }
    std::size_t bytes = 1;
    while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
    if (column++ < columns) result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result;
}

std::string cut_with_mark(std::string_view text, int columns, bool with_utf8) {
  if (columns <= 0 || width_of(text) <= columns) return cut_to_width(text, columns);
  return cut_to_width(text, columns - 1) + (with_utf8 ? "…" : "~");
}

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string lines;
  int column = 0;  // where the next character goes
  bool is_empty = true;
  while (!text.empty()) {
    const auto spaces = std::min(text.find_first_not_of(' '), text.size());
    const auto end = std::min(text.find(' ', spaces), text.size());
    const auto word = text.substr(0, end);
    const int width = width_of(word);
    if (columns > indent && !is_empty && column + width > columns) {
      lines += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent + width - static_cast<int>(spaces);
      lines += word.substr(spaces);
    } else {
      column += width;
      lines += word;
    }
    is_empty = false;
    text.remove_prefix(end);
  }
  return lines;
}

int width_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const auto sequence = sequence_at(text);
    if (sequence == 0 && (static_cast<unsigned char>(text.front()) & 0xc0) != 0x80) ++columns;
    text.remove_prefix(std::max<std::size_t>(1, sequence));
  }
  return columns;
}

std::string coloured(std::string_view text, Colour colour) {
  const std::string plain(text);
  return colour == Colour::none ? plain : sequence_of(colour) + plain + "\033[0m";
}

std::string progress_bar(double fraction, int width, bool with_utf8) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width * 8);
  const int full = eighths / 8;
  if (!with_utf8)
    return std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(width - full), '.');
  std::string text;
  for (int i = 0; i < full; ++i) text += "█";
  text += kEighths[eighths % 8];
  for (int cells = full + (eighths % 8 ? 1 : 0); cells < width; ++cells) text += "·";
  return text;
}

Console::Console(int descriptor) noexcept : descriptor_(descriptor) {
  try {
    const auto kind = env("TERM");
    is_terminal_ = ::isatty(descriptor) == 1 && kind && *kind != "dumb";
    has_colour_ = is_terminal_ && !env("NO_COLOR");
    has_utf8_ = locale_is_utf8();
  } catch (const std::exception&) {
    is_terminal_ = has_colour_ = has_utf8_ = false;  // no memory: plain text
  }
}

int Console::width() const noexcept {
  constexpr int kUsual = 80;
  winsize size{};
  return ::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

int Console::height() const noexcept {
  constexpr int kUsual = 24;
  winsize size{};
  return ::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

std::string Console::coloured(std::string_view text, Colour colour) const {
  return distdl::coloured(text, has_colour_ ? colour : Colour::none);
}

std::string Console::bar(double fraction, int width) const {
  return progress_bar(fraction, width, has_utf8_);
}

void Console::line(std::string_view text) const noexcept {
  try {
    // One write, so that lines of several processes are not mixed.
    std::string whole(is_terminal_ ? kClearLine : std::string_view());
    if (lines_have_times && ::isatty(descriptor_) == 0) whole += time_now();
    whole.append(text).push_back('\n');
    write_console(descriptor_, whole);
  } catch (const std::exception&) {
    write_console(descriptor_, text);
    write_console(descriptor_, "\n");
  }
}

void Console::status(std::string_view text) const noexcept {
  if (!is_terminal_) return;
  try {
    // A terminal that is full to its last column may begin a new line.
    write_console(descriptor_, std::string(kClearLine) + cut_to_width(text, width() - 1));
  } catch (const std::exception&) {
    clear_status();
  }
}

void Console::clear_status() const noexcept {
  if (is_terminal_) write_console(descriptor_, kClearLine);
}

}  // namespace distdl
