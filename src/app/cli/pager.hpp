// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace distdl::app {

/// Prints a result to stdout. On a terminal, a text that is longer than the screen goes through the pager that
/// DISTDL_PAGER or PAGER names, else through "less -FRX"; "cat" is none. Throws as fmt::print() does.
void print_paged(const std::string& text);
/// As print_paged(), for a text of two columns, such as help: on a terminal, a line that is too long goes on below its
/// second column.
void print_columns(const std::string& text);

}  // namespace distdl::app
