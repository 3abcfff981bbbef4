// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/child_processes.hpp>
#include <distdl/base/clock.hpp>

namespace distdl {
namespace {
std::mutex started_mutex;
std::set<pid_t> started;  // whose numbers may come again: such a child is left alone

/// State and parent, from proc(5): "pid (name) S ppid ...". A name may have parentheses.
std::optional<std::pair<char, pid_t>> state_and_parent(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const auto end = text.rfind(')');
  if (end == std::string::npos || end + 4 >= text.size()) return std::nullopt;
  pid_t parent = 0;
  std::from_chars(text.data() + end + 4, text.data() + text.size(), parent);
  return std::pair(text[end + 2], parent);
}
}  // namespace

void adopt_orphans() noexcept {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<pid_t> child_processes() {
  const pid_t self = ::getpid();
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const auto name = entry->path().filename().string();
    pid_t process = 0;
    const auto [last, failed] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (failed != std::errc{} || last != name.data() + name.size()) continue;
    const auto found = state_and_parent(name);
    if (found && found->second == self) children.push_back(process);
  }
  return children;
}

void note_started(pid_t process) {
  const std::lock_guard lock(started_mutex);
  started.insert(process);
}

void end_orphans() {
  using namespace std::chrono_literals;
  const auto deadline = Deadline::after(1s);
  for (bool any = true; any && !deadline.expired();) {
    any = false;
    for (const pid_t child : child_processes()) {
      {
        const std::lock_guard lock(started_mutex);
        if (started.contains(child)) continue;
      }
      any = true;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, WNOHANG);
    }
    if (any) ::poll(nullptr, 0, 1);
  }
}

char state_of(pid_t process) {
  const auto found = state_and_parent(std::to_string(process));
  return found ? found->first : '?';
}

}  // namespace distdl
