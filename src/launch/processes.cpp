// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>

#include <sys/wait.h>

#include <distdl/base/process.hpp>
#include <distdl/launch/processes.hpp>

namespace distdl::launch {
namespace {
constexpr int kKilled = 128 + SIGKILL;

int weight(int code) {
  return code == static_cast<int>(ExitCode::peer_lost) ? 1 : code;
}
}  // namespace

std::vector<int> SupervisorSignals::numbers() {
  auto numbers = stop_signals();
  numbers.push_back(SIGCHLD);
  return numbers;
}

std::optional<int> SupervisorSignals::wait_for_stop(Milliseconds timeout) {
  for (const auto deadline = Deadline::after(timeout);;) {
    const auto number = wait(std::chrono::ceil<Milliseconds>(deadline.remaining()));
    if (number && *number != SIGCHLD) return number;
    if (deadline.expired()) return std::nullopt;
  }
}

Processes::Processes(const std::vector<Process>& processes) {
  try {
    for (const auto& child : processes) running_.push_back(start_process(child.command, child.variables));
  } catch (...) {
    signal(SIGKILL);
    for (pid_t pid : running_) ::waitpid(pid, nullptr, 0);
    throw;
  }
}

Processes::~Processes() {
  signal(SIGKILL);
  for (pid_t pid : running_) ::waitpid(pid, nullptr, 0);
}

std::size_t Processes::reap() {
  std::erase_if(running_, [this](pid_t pid) {
    int status = 0;
    const pid_t found = ::waitpid(pid, &status, WNOHANG);
    if (found != pid && !(found < 0 && errno == ECHILD)) return false;
    const int code = found == pid ? exit_code_from_status(status) : static_cast<int>(ExitCode::internal);
    if (!(killed_ && code == kKilled) && weight(code) > weight(code_)) code_ = code;
    return true;
  });
  return running_.size();
}

void Processes::kill() {
  killed_ = true;
  signal(SIGKILL);
}

int Processes::code() const {
  return code_ == 0 && killed_ ? kKilled : code_;
}

void Processes::signal(int number) {
  for (pid_t pid : running_) ::kill(pid, number);
}

}  // namespace distdl::launch
