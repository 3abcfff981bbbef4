// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/signals.hpp>

namespace distdl::agent {

/// One process to start: a rank, or the srun that starts all ranks or agents.
struct Process {
  std::vector<std::string> command;
  std::map<std::string, std::string> variables;  ///< added to the environment
  std::vector<int> descriptors = {};             ///< open files of this process that it has too
};

/// The signals that a supervisor or an agent acts on: those that ask to stop, and SIGCHLD.
class SupervisorSignals {
 public:
  SupervisorSignals() : signals_(numbers()) {}
  /// Waits for a signal. Returns nothing after `timeout`.
  std::optional<int> wait(Milliseconds timeout) { return signals_.wait(timeout); }
  /// The number of one that came; nothing if there is none. Never waits.
  std::optional<int> poll() { return signals_.poll(); }
  /// Readable while there is one that was not read.
  int descriptor() const { return signals_.descriptor(); }
  /// Waits for a signal that asks to stop, which SIGCHLD does not.
  std::optional<int> wait_for_stop(Milliseconds timeout);

 private:
  static std::vector<int> numbers();

  Signals signals_;
};

/// How a process ended.
struct EndOfProcess {
  std::size_t index = 0;  ///< place of the process among those that were started
  int code = 0;           ///< 128 + n after signal n
};

/// The running processes of one launch. The destructor kills them. One that does not end although it was killed,
/// because the system holds it (a hung file system, a frozen cgroup), is left behind after kKillPatience: no code of it
/// can run any more.
class Processes {
 public:
  static constexpr Milliseconds kKillPatience{60000};

  explicit Processes(const std::vector<Process>& processes, Milliseconds kill_patience = kKillPatience);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Collects processes that have ended. Returns the number of running ones.
  std::size_t reap();
  void signal(int number);
  /// Kills the running processes. Their codes do not count as the cause of the failure.
  void kill();
  /// Kills one process, which then counts as ended with `code`.
  void kill(std::size_t index, int code);
  /// True if a process ended with a code other than ok.
  bool failed() const { return code_ != 0; }
  /// The worst exit code so far, by is_worse(). 128 + SIGKILL if all were killed here.
  int code() const;
  /// The first that failed, unless one with a worse kind of code did: a lost peer only if there is no other cause.
  const std::optional<EndOfProcess>& cause() const { return cause_; }
  bool runs(std::size_t index) const;
  /// Nothing if it has ended.
  std::optional<pid_t> pid_of(std::size_t index) const;

 private:
  struct Running {
    std::size_t index = 0;
    pid_t pid = -1;
    std::optional<int> code = {};        ///< code that it counts as ended with
    std::optional<Deadline> leave = {};  ///< since it was killed
  };
  void kill(Running& process) const;
  void note_end(const Running& process, int code);

  std::vector<Running> running_;
  std::optional<EndOfProcess> cause_;
  int code_ = 0;
  bool killed_ = false;
  Milliseconds kill_patience_;
};

}  // namespace distdl::agent
