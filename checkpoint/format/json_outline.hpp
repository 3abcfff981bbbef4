// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace distdl::checkpoint {

/// What the brackets of a JSON text tell before a parser builds anything of it. (A callback given to the parser could
/// tell the same, but it makes the parser look at all brothers of each object: quadratic time.)
struct JsonOutline {
  std::size_t depth = 0;    ///< of the deepest nesting; nesting costs a hundred times the memory of its text
  std::size_t members = 0;  ///< of the outermost object; a parser keeps the last of several that have one name
};
/// Makes sense if the text is valid JSON, which is for a parser to say.
JsonOutline outline_of(std::string_view json);

/// Whether JSON can hold the text as it is.
bool is_utf8(const std::string& text);

}  // namespace distdl::checkpoint
