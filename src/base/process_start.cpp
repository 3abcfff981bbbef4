// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/process_start.hpp>

namespace distdl {
namespace {
bool started_with_hangup_ignored = false;

void open_if_closed(int descriptor, int mode) noexcept {
  if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) return;
  ::open("/dev/null", mode);  // takes the lowest that is free: this one, since those below are open
}
}  // namespace

void before_libraries() noexcept {
  open_if_closed(STDIN_FILENO, O_RDWR);
  open_if_closed(STDOUT_FILENO, O_RDONLY);
  open_if_closed(STDERR_FILENO, O_RDWR);
  started_with_hangup_ignored = started_with_hangup_ignored || hangup_is_ignored();
}

void prepare_process() noexcept {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would hide how children ended
  ::signal(SIGHUP, started_with_hangup_ignored ? SIG_IGN : SIG_DFL);
}

void require_descriptors(int ranks) {
  constexpr rlim_t kOwn = 48;  // files, libraries, the connections of the thread that saves
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  require<InternalError>(known, "cannot get the limit of open files: {}", errno_text(errno));
  const auto needed = kOwn + static_cast<rlim_t>(ranks);
  require(limit.rlim_max >= needed,
          "this process may have {} files open (ulimit -Hn), but one of {} ranks may need {}; raise the limit",
          limit.rlim_max, ranks, needed);
  if (limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  const bool raised = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  require<InternalError>(raised, "cannot raise the limit of open files: {}", errno_text(errno));
}

bool hangup_is_ignored() noexcept {
  struct sigaction action {};
  return ::sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void ignore_hangup() noexcept {
  ::signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace distdl
