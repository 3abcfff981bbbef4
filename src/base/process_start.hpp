// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>

namespace distdl {

/// The signals that ask to stop. Sites send different ones before a preemption or a time limit.
inline constexpr std::array kStopSignals{SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};

/// For the .preinit_array of a program, before any library has opened a file or handled a signal. Opens descriptors 0
/// to 2 on /dev/null if they are closed, so that no file of the run becomes a console; stdout is opened so that writing
/// to it still fails. Records whether SIGHUP was ignored when the program was started (nohup). Makes only system calls.
void before_libraries() noexcept;

/// For the .preinit_array of a program and for its main(), with the words of its command line. If it is to run or to
/// serve a run, a signal that asks to stop ends it with the code `requeue` until a Signals object takes such signals:
/// there is nothing to save yet. Signals that are ignored or handled stay so. Makes only system calls.
void answer_early_stops(int argc, const char* const* argv) noexcept;

/// The first call in main(). A pipe without reader and a file at its size limit (RLIMIT_FSIZE) become errors of write()
/// instead of fatal signals. SIGHUP gets back its action at program start, because UCX changes it. SIGCHLD gets its
/// default action, because the exit status of children would be lost otherwise. start_process() and run_command()
/// restore SIGPIPE and SIGXFSZ for their programs.
void prepare_process() noexcept;

/// Raises this process's limit of open files as far as possible. Throws ConfigError if it is too low for one of so many
/// ranks, each of which may have a connection to every other rank.
void require_descriptors(int ranks);

/// Whether this process ignores SIGHUP, because of nohup or ignore_hangup().
bool hangup_is_ignored() noexcept;
/// Ignores SIGHUP in this process and in those that it starts later. Unblocks SIGHUP in the calling thread, because a
/// blocked signal is not ignored.
void ignore_hangup() noexcept;

}  // namespace distdl
