// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace distdl {

/// The number of letters to insert, remove or change, and of adjacent ones to exchange, that turn `a` into `b` (optimal
/// string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first of the known words that are nearest to `word`. Returns an empty text if all are farther than a typing
/// error: one edit, or one for every three letters of a longer word.
std::string near_word(const std::vector<std::string>& known, std::string_view word);

}  // namespace distdl
