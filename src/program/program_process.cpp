// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/child_processes.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/program/program_process.hpp>
#include <distdl/program/shell_script.hpp>
#include <distdl/program/stop_agreement.hpp>

namespace distdl::program {
namespace {
using namespace std::chrono_literals;

constexpr auto kKillPatience = 10s;
constexpr int kBySignal = 128;  // added to a signal, an exit code

std::pair<FileDescriptor, FileDescriptor> make_pipe() {
  std::array<int, 2> ends{};
  require_call<SchedulerError>(::pipe2(ends.data(), O_CLOEXEC) == 0,
                               "cannot make a pipe for the output of the program");
  FileDescriptor reader(ends[0]), writer(ends[1]);
  const bool set = ::fcntl(reader.get(), F_SETFL, O_NONBLOCK) == 0;
  require_call<SchedulerError>(set, "cannot read the output of the program");
  return {std::move(reader), std::move(writer)};
}

/// Once the program itself has ended.
void end_all() {
  const auto deadline = Deadline::after(kKillPatience);
  for (auto children = child_processes(); !children.empty(); children = child_processes()) {
    for (const pid_t child : children) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, WNOHANG);
    }
    if (deadline.expired())
      return log(Severity::warning, "{} of the program's processes have not ended although they were killed",
                 children.size());
    ::poll(nullptr, 0, 1);
  }
}
}  // namespace

ProgramProcess::ProgramProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                               VisitLine visit, int stop_signal)
    : visit_(std::move(visit)) {
  adopt_orphans();
  auto [output, output_end] = make_pipe();
  auto [errors, errors_end] = make_pipe();
  std::vector<int> ignored{SIGUSR1, SIGUSR2};
  std::erase(ignored, stop_signal);
  pid_ = start_process_in(environment, command,
                          {.output = output_end.get(),
                           .errors = errors_end.get(),
                           .has_own_session = true,
                           .ignored_signals = std::move(ignored)});
  workers_ = {pid_};
  streams_.push_back({std::move(output), {}, false});
  streams_.push_back({std::move(errors), {}, true});
  ended_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));  // without it poll() wakes at its timeout
}

ProgramProcess::~ProgramProcess() {
  end();
}

void ProgramProcess::add_to(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_)
    if (stream.descriptor) polled.push_back({stream.descriptor.get(), POLLIN, 0});
  if (ended_ && !code_) polled.push_back({ended_.get(), POLLIN, 0});
}

/// Whether there may be more.
bool ProgramProcess::read(Stream& stream) {
  if (!stream.descriptor) return false;
  std::array<char, 16 << 10> bytes{};
  const ssize_t count = ::read(stream.descriptor.get(), bytes.data(), bytes.size());
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  const auto visit = [&](std::string_view line, bool stays) { visit_(line, stream.is_error, stays); };
  if (count <= 0) {
    stream.descriptor.reset();
    stream.lines.finish(visit);
    return false;
  }
  stream.lines.add({bytes.data(), static_cast<std::size_t>(count)}, visit);
  return true;
}

void ProgramProcess::read() {
  constexpr int kMost = 16;
  for (Stream& stream : streams_)
    for (int i = 0; i < kMost && read(stream);) ++i;
}

/// Processes that the program has left behind are children of this one too.
void ProgramProcess::collect_orphans() {
  for (const pid_t orphan : child_processes()) {
    int status = 0;
    if (orphan == pid_ || ::waitpid(orphan, &status, WNOHANG) != orphan) continue;
    if (std::ranges::find(workers_, orphan) != workers_.end()) worker_code_ = exit_code_from_status(status);
  }
}

/// Slurm may send a signal that asks to stop to all processes of a job step. A shell dies of it, while what it has
/// started still saves.
bool ProgramProcess::is_outlived(const siginfo_t& end) const {
  if (is_to_end_ || end.si_code == CLD_EXITED || !is_stop_signal(kBySignal + end.si_status)) return false;
  const auto children = child_processes();
  return std::ranges::any_of(workers_, [&](pid_t worker) {
    return worker != pid_ && std::ranges::find(children, worker) != children.end() && handles(worker, end.si_status);
  });
}

std::optional<int> ProgramProcess::reap() {
  if (code_) return code_;
  if (auto workers = with_those_of_shells(pid_); !workers.empty()) workers_ = std::move(workers);
  siginfo_t end{};
  const bool is_there = ::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) == 0;
  collect_orphans();
  if (is_there && end.si_pid == 0) return std::nullopt;
  if (is_there && is_outlived(end)) {
    ended_.reset();  // which would wake poll() all the time
    return std::nullopt;
  }
  int status = 0;
  const pid_t found = ::waitpid(pid_, &status, WNOHANG);
  if (found < 0 && errno == EINTR) return std::nullopt;
  code_ = found == pid_ ? exit_code_from_status(status) : static_cast<int>(ExitCode::internal);
  if (is_stop_signal(*code_)) code_ = worker_code_.value_or(*code_);
  end_all();
  for (Stream& stream : streams_) {
    constexpr int kMost = 1024;  // what is in the pipe, however large that is
    for (int i = 0; i < kMost && read(stream);) ++i;
    stream.lines.finish([&](std::string_view line, bool stays) { visit_(line, stream.is_error, stays); });
  }
  return code_;
}

void ProgramProcess::signal(int number) const {
  if (code_) return;
  const auto answers = [&](pid_t process) { return handles(process, number); };
  bool any = false;
  for (const pid_t worker : answers(pid_) ? std::vector<pid_t>{} : workers_)
    if (answers(worker)) any = ::kill(worker, number) == 0 || any;
  if (!any) ::kill(pid_, number);
}

void ProgramProcess::end() {
  is_to_end_ = true;
  for (const auto deadline = Deadline::after(kKillPatience); !code_ && !deadline.expired();) {
    ::kill(pid_, SIGKILL);
    if (reap()) return;
    ::poll(nullptr, 0, 2);
  }
}

bool ProgramProcess::is_suspended() const {
  return !code_ && std::ranges::any_of(workers_, [](pid_t worker) { return state_of(worker) == 'T'; });
}

}  // namespace distdl::program
