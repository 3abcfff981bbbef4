// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <distdl/agent/rank_reports.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// The program of a rank (run.command) as one more thread of the rank, named "program". Its stack is that of the first
/// Python process among the program's, by py-spy where that is installed, in at most `timeout`; or a line that says why
/// there is none. Nothing if the rank's process has started no process.
std::optional<ThreadReport> look_at_program(pid_t rank_process, Milliseconds timeout);

/// The lines of the threads in what "py-spy dump" prints, at most 64.
std::vector<std::string> stacks_in(const std::string& dump);

}  // namespace distdl::agent
