// SPDX-License-Identifier: Apache-2.0
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

namespace distdl::program {
namespace {
using namespace std::chrono_literals;

constexpr auto kKillPatience = 10s;

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
                               VisitLine visit)
    : visit_(std::move(visit)) {
  adopt_orphans();
  auto [output, output_end] = make_pipe();
  auto [errors, errors_end] = make_pipe();
  pid_ = start_process_in(environment, command,
                          {.output = output_end.get(), .errors = errors_end.get(), .has_own_session = true});
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

std::optional<int> ProgramProcess::reap() {
  if (code_) return code_;
  // Processes that the program has left behind are children of this one too.
  for (const pid_t orphan : child_processes())
    if (orphan != pid_) ::waitpid(orphan, nullptr, WNOHANG);
  int status = 0;
  const pid_t found = ::waitpid(pid_, &status, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
  code_ = found == pid_ ? exit_code_from_status(status) : static_cast<int>(ExitCode::internal);
  end_all();
  for (Stream& stream : streams_) {
    constexpr int kMost = 1024;  // what is in the pipe, however large that is
    for (int i = 0; i < kMost && read(stream);) ++i;
    stream.lines.finish([&](std::string_view line, bool stays) { visit_(line, stream.is_error, stays); });
  }
  return code_;
}

void ProgramProcess::signal(int number) const {
  if (!code_) ::kill(pid_, number);
}

void ProgramProcess::end() {
  for (const auto deadline = Deadline::after(kKillPatience); !code_ && !deadline.expired();) {
    ::kill(pid_, SIGKILL);
    if (reap()) return;
    ::poll(nullptr, 0, 2);
  }
}

bool ProgramProcess::is_suspended() const {
  return !code_ && state_of(pid_) == 'T';
}

}  // namespace distdl::program
