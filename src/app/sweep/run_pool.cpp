// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>

#include <sys/wait.h>

#include <distdl/app/sweep/run_pool.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/base/process.hpp>

namespace distdl::app {

RunPool::~RunPool() {
  signal(SIGKILL);
  for (const Running& process : running_) ::waitpid(process.pid, nullptr, 0);
}

void RunPool::start(std::size_t number, const std::vector<std::string>& command,
                    const std::map<std::string, std::string>& variables, const std::filesystem::path& log) {
  std::vector<std::string> words{"sh", "-c", R"(log=$1; shift; exec "$@" >>"$log" 2>&1)", "sh", log.string()};
  words.insert(words.end(), command.begin(), command.end());
  running_.push_back({number, start_process(words, variables)});
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
