// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl {

/// For the .preinit_array of a program, before any library has opened a file or taken a signal. Opens descriptors 0 to
/// 2 on /dev/null if they are closed, so that no file of the run becomes somebody's console: stdout so that writing to
/// it still fails. Remembers whether whoever started the program (nohup) has SIGHUP ignored. System calls only.
void before_libraries() noexcept;

/// The first thing in main: a pipe without reader and a file at its size limit (RLIMIT_FSIZE) become errors of write()
/// instead of signals that kill; SIGHUP is what it was when the program was started, since UCX takes it for itself;
/// SIGCHLD is the usual one, for else nobody would learn how a child ended. start_process() and run_command() give
/// their programs the usual SIGPIPE and SIGXFSZ back.
void prepare_process() noexcept;

/// Raises this process's limit of open files as far as it may. Throws ConfigError if it is too low for one of so many
/// ranks, each of which may hold a connection to each other one.
void require_descriptors(int ranks);

/// Whether SIGHUP does nothing to this process: started by nohup, or by ignore_hangup().
bool hangup_is_ignored() noexcept;
/// From now on, also in the processes that this one starts. Unblocks SIGHUP in the calling thread: what is blocked is
/// not ignored.
void ignore_hangup() noexcept;

}  // namespace distdl
