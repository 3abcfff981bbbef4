// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl {

/// `text` as it may stand in one line of a console or a log. Names of files, keys and hosts come from outside: what
/// would end the line, steer a terminal, turn the direction of writing or is no UTF-8 becomes an escape ("\n", "\x1b",
/// "\u202e"). All else, also letters of any language, stays as it is.
std::string printable(std::string_view text);

}  // namespace distdl
