// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace distdl::app {

/// Processes that run beside each other, each with a number and with its output in a file. The destructor kills them.
class RunPool {
 public:
  RunPool() = default;
  ~RunPool();
  RunPool(const RunPool&) = delete;
  RunPool& operator=(const RunPool&) = delete;

  /// Appends stdout and stderr of the command to `log`. `variables`: added to its environment. Throws SchedulerError if
  /// the system starts no process.
  void start(std::size_t number, const std::vector<std::string>& command,
             const std::map<std::string, std::string>& variables, const std::filesystem::path& log);
  struct Ended {
    std::size_t number = 0;
    int code = 0;  ///< 128 + n after signal n
  };
  /// Returns the processes that have ended since the last call.
  std::vector<Ended> reap();
  void signal(int number) const;
  std::size_t size() const { return running_.size(); }

 private:
  struct Running {
    std::size_t number = 0;
    pid_t pid = -1;
  };
  std::vector<Running> running_;
};

}  // namespace distdl::app
