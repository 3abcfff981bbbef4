// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/line_process.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {

LineProcess::LineProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables) {
  // A socket, since writing to a pipe without reader raises a signal.
  int in[2], out[2];
  const bool has_socket = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0;
  require_call<InternalError>(has_socket, "cannot make a socket");
  input_.reset(in[0]);
  const FileDescriptor their_input(in[1]);
  const bool has_pipe = ::pipe2(out, O_CLOEXEC) == 0;
  require_call<InternalError>(has_pipe, "cannot make a pipe");
  output_.reset(out[0]);
  const FileDescriptor their_output(out[1]);
  pid_ = start_process(command, variables, {their_input.get(), their_output.get()});
}

LineProcess::~LineProcess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool LineProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(input_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::string> LineProcess::read_line(Milliseconds timeout) {
  const auto deadline = Deadline::after(timeout);
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      auto line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd polled{output_.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<Milliseconds>(deadline.remaining()).count();
    if (::poll(&polled, 1, static_cast<int>(left)) == 0) return std::nullopt;
    char buffer[4096];
    const ssize_t n = ::read(output_.get(), buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EINTR)) return std::nullopt;
    if (n > 0) unread_.append(buffer, static_cast<std::size_t>(n));
  }
}

int LineProcess::finish(Milliseconds timeout) {
  input_.reset();
  const auto deadline = Deadline::after(timeout);
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (deadline.expired()) ::kill(pid_, SIGKILL);
    ::poll(nullptr, 0, 2);
  }
  pid_ = -1;
  return exit_code_from_status(status);
}

}  // namespace distdl
