// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace distdl {

/// Words as a sentence lists them: "a", "a or b", "a, b or c".
inline std::string listed(const std::vector<std::string>& words, std::string_view last = "or") {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " " + std::string(last) + " ";
    text += words[i];
  }
  return text;
}

}  // namespace distdl
