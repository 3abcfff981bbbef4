// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace distdl {

/// When the process began, in clock ticks since the boot; nothing if there is none, or it has ended and nobody took
/// note of it yet.
std::optional<std::int64_t> start_of_process(std::int64_t pid);

/// How long ago that was.
std::optional<std::chrono::milliseconds> age_of_process(std::int64_t pid);

}  // namespace distdl
