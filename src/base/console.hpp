// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace distdl {

/// Writes to a console if possible. Output that cannot be written is dropped: there is no such descriptor, the terminal
/// is closed, a pipe has no reader, or a disk is full. If a stopped terminal or an unread pipe accepts nothing for a
/// second, all output is dropped until it accepts bytes again.
void write_console(int descriptor, std::string_view text) noexcept;

}  // namespace distdl
