// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nlohmann/json.hpp>

#include <distdl/checkpoint/format/json_outline.hpp>

namespace distdl::checkpoint {

JsonOutline outline_of(std::string_view json) {
  JsonOutline outline;
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"')
      in_string = !in_string;
    else if (in_string)
      i += c == '\\';
    else if (c == '{' || c == '[')
      outline.depth = std::max(outline.depth, ++depth);
    else if (c == '}' || c == ']')
      depth -= depth > 0;
    else if (c == ':' && depth == 1)
      ++outline.members;
  }
  return outline;
}

}  // namespace distdl::checkpoint
