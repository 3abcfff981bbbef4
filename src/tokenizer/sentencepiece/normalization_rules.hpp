// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl::tokenizer {

/// Checks the rules of a SentencePiece model (precompiled_charsmap), by which the library walks unchecked: four bytes
/// with the length of a double-array trie of darts-clone, the trie, and texts that end with a zero byte. Returns
/// whether no rule is about a space, and none puts a space in the place of a Latin letter or digit, or takes that away.
/// Throws ConfigError that begins with `name`.
bool check_normalization_rules(std::string_view rules, const std::string& name);

}  // namespace distdl::tokenizer
