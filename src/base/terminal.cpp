// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <exception>
#include <string_view>

#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <distdl/base/terminal.hpp>

namespace distdl {
namespace {
using namespace std::chrono_literals;

// The other screen, without cursor; lines are cut at the right edge.
constexpr std::string_view kEnterScreen = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr std::string_view kLeaveScreen = "\033[0m\033[?7h\033[?25h\033[?1049l";

/// Terminal whose modes a signal handler restores. Only one Terminal is open at a time.
struct Borrowed {
  std::atomic<bool> is_entered{false};
  int in = -1, out = -1;
  termios modes{};
};
Borrowed borrowed;

constexpr std::array kEnds{SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
                           SIGSEGV, SIGBUS,  SIGFPE, SIGILL,  SIGABRT};
std::array<struct sigaction, kEnds.size()> actions_before{};

bool set_modes(const termios& modes) noexcept {
  while (::tcsetattr(borrowed.in, TCSANOW, &modes) != 0)
    if (errno != EINTR) return false;
  return true;
}

/// For signal handlers too: only calls that POSIX allows there.
void leave_screen() noexcept {
  if (!borrowed.is_entered.exchange(false)) return;
  [[maybe_unused]] const auto written = ::write(borrowed.out, kLeaveScreen.data(), kLeaveScreen.size());
  set_modes(borrowed.modes);
}

/// Restores the terminal, then ends the process by the signal's default action.
void leave_and_end(int number) noexcept {
  leave_screen();
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(number, &usual, nullptr);
  ::raise(number);
}

/// Sets handlers for signals that end the process. Ignored signals, such as SIGHUP under nohup, stay ignored.
void handle_ends() noexcept {
  struct sigaction action {};
  action.sa_handler = leave_and_end;
  sigfillset(&action.sa_mask);
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    if (::sigaction(kEnds[i], nullptr, &actions_before[i]) != 0) continue;
    if (actions_before[i].sa_handler != SIG_IGN) ::sigaction(kEnds[i], &action, nullptr);
  }
}

void handle_ends_as_before() noexcept {
  for (std::size_t i = 0; i < kEnds.size(); ++i) ::sigaction(kEnds[i], &actions_before[i], nullptr);
}

/// The key of an escape sequence ("\033[A", "\033OA", "\033[5~"). `sequence`: the part behind the first two bytes.
Key key_of(std::string_view sequence) {
  static constexpr std::array<std::pair<std::string_view, Key>, 12> kKeys{{{"A", Key::up},
                                                                           {"B", Key::down},
                                                                           {"C", Key::right},
                                                                           {"D", Key::left},
                                                                           {"H", Key::home},
                                                                           {"F", Key::end},
                                                                           {"M", Key::enter},
                                                                           {"1~", Key::home},
                                                                           {"4~", Key::end},
                                                                           {"5~", Key::page_up},
                                                                           {"6~", Key::page_down},
                                                                           {"7~", Key::home}}};
  for (const auto& [text, key] : kKeys)
    if (text == sequence) return key;
  return Key::unknown;
}

/// Bytes of the escape sequence at the front; 0: it is not whole.
std::size_t sequence_bytes(std::string_view bytes) {
  if (bytes.size() < 3) return 0;
  if (bytes[1] == 'O') return 3;
  for (std::size_t i = 2; i < bytes.size(); ++i)
    if (bytes[i] >= '@' && bytes[i] <= '~') return i + 1;
  return 0;
}

/// The key that begins with Escape at the front. Returns its bytes; 0: more may come.
std::size_t take_escape(std::string_view bytes, std::vector<KeyPress>& keys) {
  constexpr std::size_t kLongestSequence = 32;
  if (bytes.size() == 1) return 0;
  if (bytes[1] != '[' && bytes[1] != 'O') {
    keys.push_back({Key::escape});
    return 1;
  }
  const auto length = sequence_bytes(bytes);
  if (length > 0) keys.push_back({key_of(bytes.substr(2, length - 2))});
  return length > 0 || bytes.size() < kLongestSequence ? length : bytes.size();
}
}  // namespace

std::vector<KeyPress> take_keys(std::string& bytes) {
  std::vector<KeyPress> keys;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const char first = rest.front();
    if (first == '\033') {
      const auto taken = take_escape(rest, keys);
      if (taken == 0) break;
      rest.remove_prefix(taken);
      continue;
    }
    if (first == '\r' || first == '\n')
      keys.push_back({Key::enter});
    else if (static_cast<unsigned char>(first) < 0x80)
      keys.push_back({Key::character, first});
    rest.remove_prefix(1);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return keys;
}

Terminal::Terminal(int in, int out) noexcept : in_(in), console_(out) {
  termios modes{};
  if (!console_.is_terminal() || ::tcgetattr(in, &modes) != 0) return;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_before_);
  try {
    signals_.emplace(std::vector<int>{SIGTSTP, SIGCONT, SIGWINCH});
  } catch (const std::exception&) {  // no descriptor or memory is left
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    return;
  }
  borrowed.in = in;
  borrowed.out = out;
  handle_ends();
  enter();
}

Terminal::~Terminal() {
  if (!is_open()) return;
  leave_screen();
  handle_ends_as_before();
  signals_.reset();
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

/// Shows the other screen. The system stops a process in the background here, until it is in the foreground again.
void Terminal::enter() noexcept {
  if (!borrowed.is_entered) {
    if (::tcgetattr(in_, &borrowed.modes) != 0) return;
    borrowed.is_entered = true;
  }
  termios raw = borrowed.modes;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // ISIG stays: Ctrl-C and Ctrl-Z send signals
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  set_modes(raw);
  write_console(borrowed.out, kEnterScreen);
  forget();
}

/// Stops the process as Ctrl-Z does. The system ignores the signal if no shell could continue the process.
void Terminal::stop() noexcept {
  leave_screen();
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);  // stops here
  ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  enter();
}

std::optional<Terminal::Input> Terminal::pending_signal() noexcept {
  std::optional<Input> input;
  while (const auto number = signals_->poll()) {
    if (*number == SIGTSTP) stop();
    if (*number == SIGCONT) enter();
    forget();
    input = Input{Event::resized};
  }
  return input;
}

/// Reads the bytes that have arrived and adds their keys to keys_. False if the terminal is gone.
bool Terminal::read_keys(bool has_hung_up) noexcept try {
  std::array<char, 256> piece{};
  const auto n = ::read(in_, piece.data(), piece.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n == 0) return !has_hung_up;  // somebody else has read it
  bytes_.append(piece.data(), static_cast<std::size_t>(n));
  keys_ = take_keys(bytes_);
  return true;
} catch (const std::exception&) {  // no memory: the keys are lost
  bytes_.clear();
  return true;
}

Terminal::Input Terminal::wait(Milliseconds timeout) noexcept {
  constexpr auto kSequence = 50ms;  // the bytes of one key come together
  if (!is_open()) return {Event::closed};
  for (const Deadline deadline = Deadline::after(timeout);;) {
    if (!keys_.empty()) {
      const Input input{Event::key, keys_.front()};
      keys_.erase(keys_.begin());
      return input;
    }
    if (const auto input = pending_signal()) return *input;
    std::array<pollfd, 2> polled{pollfd{in_, POLLIN, 0}, pollfd{signals_->descriptor(), POLLIN, 0}};
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline.remaining());
    const auto patience = bytes_.empty() ? left : std::min<Milliseconds>(left, kSequence);
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(patience.count()));
    if (ready < 0 && errno != EINTR) return {Event::closed};
    if (ready <= 0) {
      if (!bytes_.empty()) {  // the key Escape, and nothing behind it
        bytes_.clear();
        return {Event::key, {Key::escape}};
      }
      if (deadline.expired()) return {};
      continue;
    }
    const short seen = polled[0].revents;
    if (seen != 0 && !read_keys((seen & (POLLHUP | POLLERR | POLLNVAL)) != 0)) return {Event::closed};
  }
}

void Terminal::show(const std::vector<std::string>& lines) noexcept try {
  if (!is_open() || !borrowed.is_entered) return;
  std::string text;
  for (std::size_t i = 0; i < std::max(lines.size(), shown_.size()); ++i) {
    const std::string_view line = i < lines.size() ? std::string_view(lines[i]) : std::string_view();
    if (i < shown_.size() && shown_[i] == line) continue;
    text += fmt::format("\033[{};1H\033[2K{}", i + 1, line);
  }
  const bool is_new = shown_.empty();
  shown_ = lines;
  write_console(borrowed.out, is_new ? "\033[2J" + text : text);
} catch (const std::exception&) {  // no memory: the next one may have some
  forget();
}

}  // namespace distdl
