// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include <distdl/base/clock.hpp>

namespace distdl {

std::string host_name();

/// The file of the program that this process runs. Throws InternalError if the system does not tell.
std::string own_program();

/// How a process ended: its exit code, or 128 + the number of the signal that killed it, as shells and srun count.
int exit_code_from_status(int wait_status);

/// What a process gets for its stdin and stdout; -1: this process's own.
struct StandardStreams {
  int input = -1;
  int output = -1;
};

/// Starts a program (searched on PATH) with the given variables added to the environment. Signals blocked or ignored in
/// this process are not so in the child. The child is killed when the calling thread ends, which for the main thread
/// means with this process: call it from a thread that outlives the child. Throws SchedulerError if the system refuses
/// a process; a program that does not exist ends with code 127.
pid_t start_process(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables,
                    const StandardStreams& streams = {});

struct CommandResult {
  int exit_code = 0;   ///< 127: no such program; 124: ended at the timeout
  std::string output;  ///< stdout
  std::string errors;  ///< stderr
};

/// Runs a program to its end and collects what it prints. At the timeout it is killed, or first asked by SIGTERM to end
/// within `grace`. Throws Error only if the system refuses a process or a pipe.
CommandResult run_command(const std::vector<std::string>& command, Milliseconds timeout, Milliseconds grace = {});

}  // namespace distdl
