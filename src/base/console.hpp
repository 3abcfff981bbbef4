// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace distdl {

/// Writes to a console if that is possible. Output is dropped if it cannot be written: no such descriptor, a closed
/// terminal, a pipe without reader, a full disk. If a stopped terminal or an unread pipe takes nothing for a second,
/// all output is dropped until it takes something again.
void write_console(int descriptor, std::string_view text) noexcept;

}  // namespace distdl
