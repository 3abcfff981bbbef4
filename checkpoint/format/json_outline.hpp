// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace distdl::checkpoint {

/// Nesting and number of members of a JSON text, counted before a parser allocates memory for it. (A callback of the
/// parser could count the same, but it makes the parser visit all siblings of each object, which takes quadratic time.)
struct JsonOutline {
  std::size_t depth = 0;    ///< deepest nesting; a level costs a hundred times the memory of its text
  std::size_t members = 0;  ///< members of the outermost object; a parser keeps only the last of several with one name
};
/// The result is meaningful only if the text is valid JSON, which is left to a parser.
JsonOutline outline_of(std::string_view json);

}  // namespace distdl::checkpoint
