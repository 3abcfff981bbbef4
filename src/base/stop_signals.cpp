// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/eventfd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/stop_signals.hpp>

namespace distdl {

StopSignals::StopSignals() : signals_(stop_signals()), continued_({SIGCONT}) {}

bool StopSignals::was_suspended() {
  bool was = false;
  while (continued_.poll()) was = true;
  return was;
}

const std::optional<std::string>& StopSignals::poll() {
  if (!reason_)
    if (const auto number = signals_.poll()) reason_ = fmt::format("signal SIG{}", sigabbrev_np(*number));
  return reason_;
}

StartWatch::StartWatch(StopSignals& signals, std::function<void(const std::string&)> on_signal)
    : began_(::eventfd(0, EFD_CLOEXEC)) {
  require_call<SchedulerError>(static_cast<bool>(began_), "cannot watch for signals");
  thread_ = std::jthread([&signals, on_signal = std::move(on_signal), began = began_.get()] {
    pollfd polled[]{{signals.descriptor(), POLLIN, 0}, {began, POLLIN, 0}};
    while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
    }
    if (polled[1].revents != 0) return;
    if (const auto& reason = signals.poll()) on_signal(*reason);
  });
}

void StartWatch::end() noexcept {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  while (::write(began_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

}  // namespace distdl
