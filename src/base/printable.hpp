// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl {

/// Escapes `text` for one line of a console or a log, because names of files, keys and hosts are not trusted. Line
/// ends, control characters, changes of the writing direction and bytes that are not UTF-8 become escapes ("\n",
/// "\x1b", "\u202e"). All other characters, including letters of any language, are unchanged.
std::string printable(std::string_view text);

/// Whether the text is UTF-8, so that JSON and TOML can contain it unchanged.
bool is_utf8(std::string_view text);

}  // namespace distdl
