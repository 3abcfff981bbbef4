// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

// What metrics.jsonl and journal.jsonl consist of. RunFolder and Journal write the rows; docs/metrics.md has the table.
namespace distdl::observe {

/// Of the rows. The first row of each start in metrics.jsonl and the row `started` of the journal have it as `version`.
/// Rows without it are of version 1 (distdl 0.1): no start, no cause_code.
inline constexpr int kRecordVersion = 2;

struct Field {
  std::string_view name, unit, meaning;
  std::string_view metric = {};  ///< name of the gauge in the OpenMetrics file; empty: none
};

/// One kind of row.
struct RecordKind {
  std::string_view file, name, meaning;
  std::span<const Field> fields;  ///< besides common_fields()
};

/// Those that rows of any kind may have.
std::span<const Field> common_fields();
/// In the order of the table.
std::span<const RecordKind> record_kinds();
/// Null if there is none of this name.
const RecordKind* find_kind(std::string_view name);

/// The table with the codes of causes, as docs/metrics.md has it.
std::string records_as_markdown();

}  // namespace distdl::observe
