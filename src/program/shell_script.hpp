// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <sys/types.h>

namespace distdl::program {

/// A program, and if that is a shell, as of a script that ends with "python3 train.py", those that it has started, also
/// by further shells. Empty if it has ended.
std::vector<pid_t> with_those_of_shells(pid_t program);

/// Whether a process has a handler for a signal.
bool handles(pid_t process, int signal);

}  // namespace distdl::program
