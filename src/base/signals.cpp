// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/signals.hpp>

namespace distdl {
namespace {
std::atomic<bool> stop_was_read = false;
}  // namespace

std::vector<int> stop_signals() {
  std::vector<int> numbers(kStopSignals.begin(), kStopSignals.end());
  if (hangup_is_ignored()) std::erase(numbers, SIGHUP);
  return numbers;
}

bool stop_is_pending() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return false;
  return std::ranges::any_of(kStopSignals, [&](int number) { return sigismember(&pending, number) == 1; });
}

bool stop_was_sent() {
  return stop_was_read || stop_is_pending();
}

SignalsBlocked::SignalsBlocked() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
  const int error = ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  require<SchedulerError>(error == 0, "cannot block signals: {}", errno_text(error));
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Signals::Signals(const std::vector<int>& numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  const int error = ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  require<SchedulerError>(error == 0, "cannot block signals: {}", errno_text(error));
  descriptor_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  require_call<SchedulerError>(static_cast<bool>(descriptor_), "cannot watch for signals");
}

std::optional<int> Signals::poll() {
  signalfd_siginfo info{};
  if (::read(descriptor_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  const auto number = static_cast<int>(info.ssi_signo);
  if (std::ranges::count(kStopSignals, number) > 0) stop_was_read = true;
  return number;
}

std::optional<int> Signals::wait(Milliseconds timeout) {
  pollfd polled{descriptor_.get(), POLLIN, 0};
  ::poll(&polled, 1, static_cast<int>(timeout.count()));
  return poll();
}

}  // namespace distdl
