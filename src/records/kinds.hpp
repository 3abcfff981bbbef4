// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <distdl/records/record.hpp>

// The table of all kinds of rows and their fields; docs/metrics.md has it.
namespace distdl::records {

/// The version of the rows. The first row of each start in metrics.jsonl and the row `started` of the journal have it
/// as `version`. Rows without it are of version 1 (distdl 0.1): no start, no cause_code.
inline constexpr int kRecordVersion = 2;

struct Field {
  std::string_view name, unit, meaning;
  std::string_view metric = {};  ///< name of the gauge of OpenMetrics; empty: none
};

/// One kind of row.
struct RecordKind {
  std::string_view file, name, meaning;  ///< file: "journal.jsonl"
  std::span<const Field> fields;         ///< besides common_fields()
  RowTraits traits;
};

/// The fields that rows of any kind may have.
std::span<const Field> common_fields();
/// All kinds of the table, in its order.
std::span<const RecordKind> record_kinds();

/// The table with the codes of causes, as docs/metrics.md has it.
std::string records_as_markdown();

/// Calls `visit` for each finite number of a record that its row has and that has a metric.
void for_each_number(const Record& record, const std::function<void(const Field& field, double value)>& visit);

}  // namespace distdl::records
