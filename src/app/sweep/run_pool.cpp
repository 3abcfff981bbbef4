// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/wait.h>

#include <distdl/app/sweep/run_pool.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::app {

RunPool::~RunPool() {
  signal(SIGKILL);
  // A process that a file system holds is left behind, as by agent::Processes.
  for (const auto limit = Deadline::after(Milliseconds(10000)); !running_.empty() && !limit.expired();) {
    reap();
    ::poll(nullptr, 0, 2);
  }
}

void RunPool::start(std::size_t number, const std::vector<std::string>& command,
                    const std::map<std::string, std::string>& variables, const std::filesystem::path& log) {
  const FileDescriptor out = open_to_append(resolved_place(log));
  std::vector<std::string> words{"sh", "-c", R"(exec "$@" 2>&1)", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  running_.push_back({number, start_process(words, variables, {.output = out.get()})});
}

std::vector<RunPool::Ended> RunPool::reap() {
  std::vector<Ended> ended;
  std::erase_if(running_, [&](const Running& process) {
    int status = 0;
    const pid_t found = ::waitpid(process.pid, &status, WNOHANG);
    if (found != process.pid && !(found < 0 && errno == ECHILD)) return false;
    ended.push_back(
        {process.number, found == process.pid ? exit_code_from_status(status) : static_cast<int>(ExitCode::internal)});
    return true;
  });
  return ended;
}

void RunPool::signal(int number) const {
  for (const Running& process : running_) ::kill(process.pid, number);
}

}  // namespace distdl::app
