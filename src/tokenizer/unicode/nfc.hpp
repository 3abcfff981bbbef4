// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl::tokenizer {

/// Unicode's normalization form C of a text: `text` itself if it has that form, otherwise `changed`, which gets it. The
/// version of Unicode is that of make_unicode_tables.py. Bytes that are not UTF-8 stay. Specification:
/// unicode.org/reports/tr15
std::string_view to_nfc(std::string_view text, std::string& changed);

}  // namespace distdl::tokenizer
