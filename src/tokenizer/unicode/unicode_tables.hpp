// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

// Tables of Unicode, as make_unicode_tables.py writes them: that script names the version.
namespace distdl::tokenizer {

/// A number that the characters first .. last have, each in ascending order of characters; all others have 0.
struct CodeRange {
  std::uint32_t first, last, value;
};
/// A character that canonically is `first` and, unless it is 0, `second`. Without Hangul's syllables, which are
/// computed.
struct Decomposition {
  std::uint32_t character, first, second;
  bool composes;  ///< NFC makes the character of the two
};

/// The bits of Property.
std::span<const CodeRange> properties();
std::span<const CodeRange> combining_classes();
std::span<const Decomposition> decompositions();

}  // namespace distdl::tokenizer
