// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <sys/types.h>

namespace distdl {

/// From now on a process becomes a child of this one when its parent has ended, if it descends from this one: also one
/// that has left its session, as daemons do.
void adopt_orphans() noexcept;

/// The processes whose parent this process is, also those that have ended and were not waited for.
std::vector<pid_t> child_processes();

/// A process that this one has started itself is no orphan.
void note_started(pid_t process);
/// Ends the processes that have become children of this one, as adopt_orphans() says, and collects them. Those that the
/// system holds for a second are left behind.
void end_orphans();

/// The state that the kernel gives a process: 'R', 'S', 'D', 'T' (stopped by a signal), 'Z' ...; '?' if there is none.
char state_of(pid_t process);

}  // namespace distdl
