// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/child_processes.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {
namespace {
constexpr int kTimedOut = 124;

/// As exec wants them; valid as long as the texts.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

struct Pipe {
  FileDescriptor read, write;
  Pipe() {
    int ends[2];
    require_call<InternalError>(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe");
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

/// A file in memory with this text, to be read from its beginning.
FileDescriptor file_of(const std::string& text) {
  FileDescriptor file(::memfd_create("distdl-input", MFD_CLOEXEC));
  const bool made = file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                    ::lseek(file.get(), 0, SEEK_SET) == 0;
  require_call<InternalError>(made, "cannot make a file in memory");
  return file;
}

/// In the child, as become(). `input`: -1: /dev/null: a child that read the input of this process would take it from
/// whoever comes next, as in "while read file; do distdl run $file; done".
void take_input(int input) {
  const int file = input >= 0 ? input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file < 0 || ::dup2(file, STDIN_FILENO) < 0) ::_exit(127);
}

/// In the child, between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(char** argv, char** environment, pid_t parent, std::span<const int> ignored_signals = {}) {
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ, SIGCHLD})
    ::signal(number, SIG_DFL);  // exec keeps what is ignored; SIGHUP stays so, as nohup wants it
  for (const int number : ignored_signals) ::signal(number, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before prctl
  ::execvpe(argv[0], argv, environment);
  ::_exit(127);
}

/// From both descriptors into both texts, until their other ends are closed or the time is over.
void read_to_the_end(std::array<int, 2> descriptors, std::array<std::string*, 2> texts, const Deadline& deadline) {
  std::array<pollfd, 2> polled{pollfd{descriptors[0], POLLIN, 0}, pollfd{descriptors[1], POLLIN, 0}};
  int open = 2;
  while (open > 0 && !deadline.expired()) {
    auto left = std::chrono::ceil<Milliseconds>(deadline.remaining()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) < 0) {
      if (errno == EINTR) continue;  // what polled says is of the time before
      break;
    }
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[4096];
      ssize_t n = ::read(polled[i].fd, buffer, sizeof buffer);
      if (n > 0) texts[i]->append(buffer, static_cast<std::size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR)) {
        polled[i].fd = -1;
        --open;
      }
    }
  }
}

/// Nothing if it has not ended by then.
std::optional<int> code_by(const Deadline& deadline, pid_t pid) {
  for (;;) {
    int status = 0;
    pid_t done = ::waitpid(pid, &status, WNOHANG);
    if (done == pid) return exit_code_from_status(status);
    if (done < 0 && errno != EINTR) return 127;
    if (deadline.expired()) return std::nullopt;
    ::poll(nullptr, 0, 2);
  }
}

pid_t fork_for(const std::string& program) {
  const pid_t pid = ::fork();
  if (pid < 0)
    throw ResourceError(fmt::format("cannot start \"{}\": {}; {}", program, errno_text(errno), process_limits()));
  if (pid > 0) note_started(pid);
  return pid;
}

void end(pid_t pid, Milliseconds grace) {
  constexpr Milliseconds kKillPatience{10000};
  if (grace.count() > 0) {
    ::kill(pid, SIGTERM);
    if (code_by(Deadline::after(grace), pid)) return;
  }
  ::kill(pid, SIGKILL);
  if (!code_by(Deadline::after(kKillPatience), pid))
    log(Severity::warning,
        "process {} has not ended although it was killed, as a file system that hangs holds it; it is left behind",
        pid);
}
}  // namespace

namespace {
/// The sum of these values of /proc/self/status, which are in KiB.
double status_bytes(std::initializer_list<std::string_view> keys) {
  std::ifstream file("/proc/self/status");
  double kibibytes = 0;
  for (std::string name; file >> name;)
    if (double value = 0; std::ranges::find(keys, name) != keys.end() && file >> value) kibibytes += value;
  return kibibytes * 1024;
}
}  // namespace

double resident_bytes() {
  return status_bytes({"RssAnon:", "RssShmem:"});
}

double peak_resident_bytes() {
  return status_bytes({"VmHWM:"});
}

void give_back_freed_memory() {
#if defined(__GLIBC__) && !defined(DISTDL_SANITIZED)
  ::malloc_trim(0);
#endif
}

int exit_code_from_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

pid_t start_process(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables,
                    const InheritedFiles& files) {
  return start_process_in(environment_with(variables), command, files);
}

pid_t start_process_in(const std::vector<std::string>& environment, const std::vector<std::string>& command,
                       const InheritedFiles& files) {
  auto words = command, environment_text = environment;
  auto argv = pointers(words), entries = pointers(environment_text);
  pid_t parent = ::getpid();
  const pid_t pid = fork_for(command.front());
  if (pid == 0) {
    if (files.has_own_session) ::setsid();
    take_input(files.input);
    if (files.output >= 0) ::dup2(files.output, STDOUT_FILENO);
    if (files.errors >= 0) ::dup2(files.errors, STDERR_FILENO);
    for (const int descriptor : files.also)
      if (::fcntl(descriptor, F_SETFD, 0) != 0) ::_exit(127);
    become(argv.data(), entries.data(), parent, files.ignored_signals);
  }
  return pid;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    throw InternalError(fmt::format("gethostname: {}", errno_text(errno)));
  return name.data();
}

std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  require<InternalError>(!error, "cannot find the file of this program: {}", error.message());
  return path.string();
}

CommandResult run_command(const std::vector<std::string>& command, Milliseconds timeout, Milliseconds grace,
                          const std::optional<std::string>& input,
                          const std::map<std::string, std::string>& variables) {
  auto words = command, environment_text = environment_with(variables);
  auto argv = pointers(words), environment = pointers(environment_text);
  Pipe out, err;
  const FileDescriptor in = input ? file_of(*input) : FileDescriptor();
  pid_t parent = ::getpid();
  const pid_t pid = fork_for(command.front());
  if (pid == 0) {
    take_input(in ? in.get() : -1);
    ::dup2(out.write.get(), STDOUT_FILENO);
    ::dup2(err.write.get(), STDERR_FILENO);
    become(argv.data(), environment.data(), parent);
  }
  out.write.reset();
  err.write.reset();
  CommandResult result;
  auto deadline = Deadline::after(timeout);
  read_to_the_end({out.read.get(), err.read.get()}, {&result.output, &result.errors}, deadline);
  const auto code = code_by(deadline, pid);
  if (!code) end(pid, grace);
  result.exit_code = code.value_or(kTimedOut);
  return result;
}

}  // namespace distdl
