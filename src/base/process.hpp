// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <distdl/base/clock.hpp>

namespace distdl {

std::string host_name();

/// The file of the program that this process runs. Throws InternalError if the system does not tell.
std::string own_program();

/// Bytes of memory that this process has written to, also what it shares with others, without the pages of files. 0 if
/// the system does not tell.
double resident_bytes();

/// The most bytes that this process had in memory at a time, with pages of files. 0 if the system does not tell.
double peak_resident_bytes();

/// Gives memory that was freed back to the system, which the C library keeps otherwise: up to 32 MiB of a large piece
/// (mallopt(3), M_MMAP_THRESHOLD). Nothing happens with sanitizers, which have an allocator of their own, and where the
/// C library is not glibc.
void give_back_freed_memory();

/// The exit code of a process, or 128 + the number of the signal that killed it, as in shells and srun.
int exit_code_from_status(int wait_status);

/// A new process inherits these: open files of this one, besides those that lack FD_CLOEXEC; -1: those of this one.
struct InheritedFiles {
  int input = -1;                         ///< its stdin; -1: /dev/null
  int output = -1;                        ///< its stdout
  int errors = -1;                        ///< its stderr
  std::vector<int> also = {};             ///< under the same numbers, although they have FD_CLOEXEC
  bool has_own_session = false;           ///< no signal of this process's terminal reaches it
  std::vector<int> ignored_signals = {};  ///< unless it handles them
};

/// Starts a program (searched on PATH) with the given variables added to the environment. Signals that are blocked or
/// ignored in this process have their default action in the child, unless `files` says otherwise. The child is killed
/// when the calling thread ends, so call this from a thread that outlives the child. Throws SchedulerError if the
/// system cannot start a process. If the program does not exist, the child ends with code 127.
pid_t start_process(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables,
                    const InheritedFiles& files = {});
/// Likewise, with this whole environment ("NAME=value").
pid_t start_process_in(const std::vector<std::string>& environment, const std::vector<std::string>& command,
                       const InheritedFiles& files = {});

struct CommandResult {
  int exit_code = 0;   ///< 127: no such program; 124: ended at the timeout
  std::string output;  ///< stdout
  std::string errors;  ///< stderr
};

/// Runs a program to its end and collects its output. At the timeout it is killed; with `grace`, it gets SIGTERM first
/// and may end within `grace`. `input`: what it reads from its stdin; nothing: its stdin is /dev/null.
/// `variables`: added to its environment, as environment_with() does.
/// Throws Error only if the system cannot start a process, create a pipe, or hold the input.
CommandResult run_command(const std::vector<std::string>& command, Milliseconds timeout, Milliseconds grace = {},
                          const std::optional<std::string>& input = {},
                          const std::map<std::string, std::string>& variables = {});

}  // namespace distdl
