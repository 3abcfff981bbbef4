// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/wait.h>

#include <distdl/agent/processes.hpp>
#include <distdl/agent/rank_look.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>

namespace distdl::agent {
namespace {
constexpr int kKilled = 128 + SIGKILL;

/// Whether `code` is the cause of a failure, and not that of a process that ended `before`. Of several crashes the
/// first is.
bool is_cause_instead(int code, int before) {
  const bool is_crash = is_cause(code) && !is_corruption(code);
  return is_worse(code, before) && !(is_crash && is_cause(before));
}

void log_left(pid_t process, Milliseconds patience) {
  const std::string where = kernel_function(process, process);
  log(Severity::error,
      "process {} has not ended for {:.0f} s although it was killed: the system holds it (state {}{}{}), as a file "
      "system that hangs does; it is left behind",
      process, std::chrono::duration<double>(patience).count(), state_of_process(process, process),
      where.empty() ? "" : ", in ", where);
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

Processes::Processes(const std::vector<Process>& processes, Milliseconds kill_patience)
    : kill_patience_(kill_patience) {
  try {
    for (const auto& child : processes)
      running_.push_back({running_.size(), start_process(child.command, child.variables, {.also = child.descriptors})});
  } catch (...) {
    signal(SIGKILL);
    for (const auto& process : running_) ::waitpid(process.pid, nullptr, 0);
    throw;
  }
}

Processes::~Processes() {
  kill();
  try {
    while (reap() > 0) ::poll(nullptr, 0, 2);
  } catch (const std::exception&) {  // there is no memory to tell who is left behind
  }
}

std::size_t Processes::reap() {
  std::erase_if(running_, [this](const Running& process) {
    int status = 0;
    const pid_t found = ::waitpid(process.pid, &status, WNOHANG);
    const bool is_left = found == 0 && process.leave && process.leave->expired();
    if (is_left) log_left(process.pid, kill_patience_);
    if (found != process.pid && !(found < 0 && errno == ECHILD) && !is_left) return false;
    const int code = is_left                ? kKilled
                     : found == process.pid ? exit_code_from_status(status)
                                            : static_cast<int>(ExitCode::internal);
    note_end(process, process.code.value_or(code));
    return true;
  });
  return running_.size();
}

void Processes::note_end(const Running& process, int code) {
  if (killed_ && code == kKilled) return;
  if (is_worse(code, code_)) code_ = code;
  if (code != 0 && (!cause_ || is_cause_instead(code, cause_->code))) cause_ = {process.index, code};
}

void Processes::kill(Running& process) const {
  ::kill(process.pid, SIGKILL);
  if (!process.leave) process.leave = Deadline::after(kill_patience_);
}

void Processes::kill() {
  killed_ = true;
  for (auto& process : running_) kill(process);
}

void Processes::kill(std::size_t index, int code) {
  for (auto& process : running_)
    if (process.index == index) {
      process.code = code;
      kill(process);
    }
}

bool Processes::runs(std::size_t index) const {
  return std::ranges::any_of(running_, [index](const Running& process) { return process.index == index; });
}

std::optional<pid_t> Processes::pid_of(std::size_t index) const {
  for (const auto& process : running_)
    if (process.index == index) return process.pid;
  return std::nullopt;
}

int Processes::code() const {
  return code_ == 0 && killed_ ? kKilled : code_;
}

void Processes::signal(int number) {
  for (const auto& process : running_) ::kill(process.pid, number);
}

}  // namespace distdl::agent
