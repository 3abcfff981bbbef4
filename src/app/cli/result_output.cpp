// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>

#include <poll.h>
#include <unistd.h>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/app/cli/result_output.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
[[noreturn]] void end_without_reader() {
  std::clearerr(stdout);  // what is left of it is not missed
  throw Ended(static_cast<int>(ExitCode::ok));
}
}  // namespace

void flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  if (errno == EPIPE) end_without_reader();
  throw StorageError(fmt::format("cannot write the result to stdout: {}", errno_text(errno)));
}

void pause_output(Milliseconds pause) {
  const auto deadline = Deadline::after(pause);
  do {
    pollfd polled{STDOUT_FILENO, 0, 0};
    const auto left = static_cast<int>(std::chrono::ceil<Milliseconds>(deadline.remaining()).count());
    const int found = ::poll(&polled, 1, left);
    if (found > 0 && (polled.revents & POLLERR) != 0) end_without_reader();
    if (found > 0) ::poll(nullptr, 0, left);  // as for a terminal that was closed
  } while (!deadline.expired());
}

}  // namespace distdl::app
