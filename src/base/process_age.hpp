// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <sstream>

namespace distdl {

/// The fields of /proc/PID/stat after the name, which may hold anything: the state, the parent ... With `thread`, that
/// of this thread of the process. Empty if there is none.
std::istringstream stat_of_process(std::int64_t pid, std::optional<std::int64_t> thread = {});

/// When the process began, in clock ticks since the boot; nothing if there is none, or it has ended and nobody took
/// note of it yet.
std::optional<std::int64_t> start_of_process(std::int64_t pid);

/// How long ago that was.
std::optional<std::chrono::milliseconds> age_of_process(std::int64_t pid);

}  // namespace distdl
