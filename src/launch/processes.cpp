// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <distdl/base/process.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/launch/processes.hpp>

namespace distdl::launch {
namespace {
constexpr int kKilled = 128 + SIGKILL;
constexpr std::array kStops{SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};  ///< all mean "save and stop"

int weight(int code) {
  return code == static_cast<int>(ExitCode::peer_lost) ? 1 : code;
}
}  // namespace

SupervisorSignals::SupervisorSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int number : kStops)
    if (number != SIGHUP || !hangup_is_ignored()) sigaddset(&set, number);
  int error = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  require<SchedulerError>(error == 0, "cannot block signals: {}", errno_text(error));
  descriptor_.reset(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  require<SchedulerError>(static_cast<bool>(descriptor_), "cannot watch for signals: {}", errno_text(errno));
}

std::optional<int> SupervisorSignals::wait(Milliseconds timeout) {
  pollfd polled{descriptor_.get(), POLLIN, 0};
  ::poll(&polled, 1, static_cast<int>(timeout.count()));
  signalfd_siginfo info{};
  if (::read(descriptor_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::optional<int> SupervisorSignals::wait_for_stop(Milliseconds timeout) {
  for (const auto deadline = Deadline::after(timeout);;) {
    const auto number = wait(std::chrono::ceil<Milliseconds>(deadline.remaining()));
    if (number && *number != SIGCHLD) return number;
    if (deadline.expired()) return std::nullopt;
  }
}

bool stop_is_pending() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return false;
  return std::ranges::any_of(kStops, [&](int number) { return sigismember(&pending, number) == 1; });
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
