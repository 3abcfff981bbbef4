// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace distdl {

/// Writes to a console, as a courtesy to whoever watches: what cannot be written (no such descriptor, a terminal that
/// is closed, a pipe without reader, a full disk) is dropped. So is what a terminal that was stopped, or a pipe that
/// nobody reads, does not take within a second, and then all that follows until it takes something again.
void write_console(int descriptor, std::string_view text) noexcept;

}  // namespace distdl
