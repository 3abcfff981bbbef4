// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {
namespace {
bool started_with_hangup_ignored = false;

void open_if_closed(int descriptor, int mode) noexcept {
  if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) return;
  ::open("/dev/null", mode);  // takes the lowest that is free: this one, since those below are open
}
/// The commands whose exit code tells what to do with the job.
constexpr std::array<std::string_view, 4> kOfRuns{"run", "worker", "agent", "sweep"};

void end_silently(int) {
  ::_exit(static_cast<int>(ExitCode::requeue));
}

void end_at_once(int number) {
  constexpr std::string_view kText = "distdl: asked to stop before it began: there was nothing to save\n";
  static_cast<void>(!::write(STDERR_FILENO, kText.data(), kText.size()));
  end_silently(number);
}

/// Null where there is no run to stop. Of a rank the supervisor says what its end means.
sighandler_t early_answer_of(int argc, const char* const* argv) noexcept {
  const char* const* const end = argv + argc;
  const auto* const command =
      std::find_if(argv + (argc > 0 ? 1 : 0), end, [](const char* word) { return *word != '-'; });
  if (command == end || std::ranges::find(kOfRuns, std::string_view(*command)) == kOfRuns.end()) return nullptr;
  if (std::any_of(command, end, [](const char* word) { return std::string_view(word) == "--check"; })) return nullptr;
  const bool is_rank = std::string_view(*command) == "worker" || std::string_view(*command) == "agent";
  return is_rank ? &end_silently : &end_at_once;
}
}  // namespace

void answer_early_stops(int argc, const char* const* argv) noexcept {
  const auto answer = early_answer_of(argc, argv);
  if (answer == nullptr) return;
  for (const int number : kStopSignals) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = answer;
    ::sigaction(number, &action, nullptr);
  }
}

void before_libraries() noexcept {
  open_if_closed(STDIN_FILENO, O_RDWR);
  open_if_closed(STDOUT_FILENO, O_RDONLY);
  open_if_closed(STDERR_FILENO, O_RDWR);
  started_with_hangup_ignored = started_with_hangup_ignored || hangup_is_ignored();
}

/// The stack of the main thread may grow up to the limit of the moment, and new threads get as much. The usual one is
/// enough for all libraries.
static void raise_stack_limit() noexcept {
  constexpr rlim_t kUsual = 8 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kUsual) return;
  limit.rlim_cur = std::min(limit.rlim_max, kUsual);
  ::setrlimit(RLIMIT_STACK, &limit);
}

void prepare_process() noexcept {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would hide how children ended
  ::signal(SIGHUP, started_with_hangup_ignored ? SIG_IGN : SIG_DFL);
  handle_shortages();
  raise_stack_limit();
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
