// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <distdl/agent/children.hpp>
#include <distdl/base/process.hpp>

namespace distdl::agent {
namespace {
constexpr int kKilled = 128 + SIGKILL;

int weight(int code) {
  return code == static_cast<int>(ExitCode::peer_lost) ? 1 : code;
}
}  // namespace

SupervisorSignals::SupervisorSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&set, number);
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

Children::Children(const std::vector<Child>& children) {
  try {
    for (const auto& child : children) running_.push_back(start_process(child.command, child.variables));
  } catch (...) {
    signal(SIGKILL);
    for (pid_t pid : running_) ::waitpid(pid, nullptr, 0);
    throw;
  }
}

Children::~Children() {
  signal(SIGKILL);
  for (pid_t pid : running_) ::waitpid(pid, nullptr, 0);
}

std::size_t Children::reap() {
  std::erase_if(running_, [this](pid_t pid) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) != pid) return false;
    int code = exit_code_from_status(status);
    if (!(killed_ && code == kKilled) && weight(code) > weight(code_)) code_ = code;
    return true;
  });
  return running_.size();
}

void Children::kill() {
  killed_ = true;
  signal(SIGKILL);
}

int Children::code() const {
  return code_ == 0 && killed_ ? kKilled : code_;
}

void Children::signal(int number) {
  for (pid_t pid : running_) ::kill(pid, number);
}

}  // namespace distdl::agent
