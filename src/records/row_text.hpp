// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <distdl/records/record.hpp>

namespace distdl::records {

inline constexpr std::size_t kLongestLine = 64 << 10;  ///< bytes; longer lines are no rows

/// The row as one JSON object, without a newline. Text that is not UTF-8, as file names may be, gets replacement
/// characters; numbers that are not finite are null. Numbers have as many digits as give the same number again. Causes
/// have their code, also where the record has none yet.
std::string text_of(const Row& row);

/// Accepts any bytes. Returns nothing unless they are a JSON object. A field that is missing, of another type or out of
/// range keeps its default value; unknown fields are ignored. Rows of unknown kinds, and rows of metrics.jsonl without
/// a step, are `Other`.
std::optional<Row> parse_row(std::string_view line);

}  // namespace distdl::records
