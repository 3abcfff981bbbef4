// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/app/cli/pager.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/process.hpp>

namespace distdl::app {
namespace {
bool is_longer_than_the_screen(const std::string& text) {
  constexpr int kUsual = 24;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  const std::size_t rows = known ? size.ws_row : kUsual, columns = known ? size.ws_col : 80;
  std::size_t needed = 1;  // the prompt after it
  for (std::string_view rest = text; !rest.empty();) {
    const auto line = rest.substr(0, rest.find('\n'));
    needed += 1 + (line.empty() ? 0 : (line.size() - 1) / columns);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return needed > rows;
}

/// Empty: none.
std::vector<std::string> pager() {
  auto named = env("DISTDL_PAGER");
  if (!named) named = env("PAGER");
  if (!named) return {"less", "-FRX"};
  if (*named == "cat") return {};
  return {"sh", "-c", *named};
}

/// Writes the text to a pipe. The rest of it is lost when the reader has seen enough.
void write_to(int pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(pipe, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Ctrl-C is for the pager, as long as there is one.
class InterruptsIgnored {
 public:
  InterruptsIgnored() : before_(::signal(SIGINT, SIG_IGN)) {}
  ~InterruptsIgnored() { ::signal(SIGINT, before_); }
  InterruptsIgnored(const InterruptsIgnored&) = delete;
  InterruptsIgnored& operator=(const InterruptsIgnored&) = delete;

 private:
  sighandler_t before_;
};

/// False if there is no such program, or it cannot be started.
bool show(const std::vector<std::string>& command, const std::string& text) {
  constexpr int kNotStarted = 126, kNoProgram = 127;  // as shells say
  const InterruptsIgnored ignored;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  FileDescriptor read(ends[0]), write(ends[1]);
  const pid_t pid = start_process(command, {}, {.input = read.get()});
  read.reset();
  write_to(write.get(), text);
  write.reset();
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)  // as long as a person reads
    if (errno != EINTR) return true;
  const int code = exit_code_from_status(status);
  return code != kNotStarted && code != kNoProgram;
}
/// Where the second column of a line begins; without one, a little to the right of the first.
int second_column(std::string_view line) {
  constexpr std::size_t kRightmost = 40, kFurther = 2;
  const auto first = std::min(line.find_first_not_of(' '), line.size());
  const auto gap = line.find("  ", first);
  const auto second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return static_cast<int>(second <= kRightmost ? second : first + kFurther);
}
}  // namespace

void print_columns(const std::string& text) {
  const Console console(STDOUT_FILENO);
  if (!console.is_terminal()) return print_paged(text);
  std::string lines;
  for (std::string_view rest = text; !rest.empty();) {
    const auto line = rest.substr(0, rest.find('\n'));
    lines += wrapped(line, console.width(), second_column(line)) + "\n";
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  print_paged(lines);
}

void print_paged(const std::string& text) {
  const bool on_terminal = Console(STDOUT_FILENO).is_terminal();
  if (on_terminal && is_longer_than_the_screen(text)) {
    std::fflush(stdout);
    const auto command = pager();
    if (!command.empty() && show(command, text)) return;
  }
  fmt::print("{}", text);
}

}  // namespace distdl::app
