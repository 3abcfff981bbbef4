// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <sys/types.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/program/output_lines.hpp>

namespace distdl::program {

/// A line of a program's output, without its end. `stays`: false if the program writes the line anew.
using VisitLine = std::function<void(std::string_view line, bool is_error, bool stays)>;

/// The process of a rank's program, in a session of its own, with all the processes that it starts: those that outlive
/// it, and those that have left its session, become children of this process and are ended with it. The destructor ends
/// them. This process must have no other children.
class ProgramProcess {
 public:
  /// The signals that may reach all processes of a job step although they are for distdl do not end the program:
  /// SIGUSR1 and SIGUSR2 are ignored where it does not handle them, but for `stop_signal`, which asks it to stop.
  /// Throws SchedulerError if the system cannot start a process.
  ProgramProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment, VisitLine visit,
                 int stop_signal = SIGTERM);
  ~ProgramProcess();
  ProgramProcess(const ProgramProcess&) = delete;
  ProgramProcess& operator=(const ProgramProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Readable when read() or reap() has something to do.
  void add_to(std::vector<pollfd>& polled) const;
  /// Reads the output that is there, a limited amount at a time, and visits its lines.
  void read();
  /// The exit code once the program has ended, 128 + n after signal n. Its output is read then as far as it has come.
  /// If a signal that asks to stop has ended a shell, and a process that it waited for handles that signal, the code is
  /// that of this process, once it has ended.
  std::optional<int> reap();
  /// Sends a signal to the program alone, not to the processes that it has started; if it is a shell that has no
  /// handler for the signal, to those of its processes that have one.
  void signal(int number) const;
  /// Ends the program and all processes that it has started, at once.
  void end();
  /// Whether a signal has stopped the program, as SIGSTOP does, or one that a shell waits for.
  bool is_suspended() const;

 private:
  struct Stream {
    FileDescriptor descriptor;
    OutputLines lines;
    bool is_error;
  };
  bool read(Stream& stream);
  void collect_orphans();
  bool is_outlived(const siginfo_t& end) const;

  VisitLine visit_;
  std::vector<Stream> streams_;
  pid_t pid_ = -1;
  FileDescriptor ended_;
  std::vector<pid_t> workers_;  ///< the program, or those of a shell, as of the last time that it was seen running
  bool is_to_end_ = false;
  std::optional<int> worker_code_, code_;
};

}  // namespace distdl::program
