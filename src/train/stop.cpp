// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstring>

#include <sys/signalfd.h>

#include <distdl/base/errors.hpp>
#include <distdl/train/stop.hpp>

namespace distdl::train {

StopSignals::StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&set, number);
  int error = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  require<SchedulerError>(error == 0, "cannot block signals: {}", errno_text(error));
  descriptor_.reset(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  require<SchedulerError>(static_cast<bool>(descriptor_), "cannot watch for signals: {}", errno_text(errno));
}

const std::optional<std::string>& StopSignals::poll() {
  signalfd_siginfo info{};
  if (!reason_ && ::read(descriptor_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    reason_ = fmt::format("signal SIG{}", sigabbrev_np(static_cast<int>(info.ssi_signo)));
  return reason_;
}

std::optional<std::string> EndOfJob::poll(Time now, bool saving) const {
  if (!end_) return std::nullopt;
  double left = std::chrono::duration<double>(*end_ - now).count();
  double wait = saving ? std::max(longest_save_, longest_snapshot_) : 0;
  if (left > longest_step_ * 2 + wait + longest_save_ * 1.5 + margin_) return std::nullopt;
  return fmt::format("end of the job in {:.0f} s", left);
}

}  // namespace distdl::train
