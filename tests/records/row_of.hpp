// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/records/row_text.hpp>

namespace distdl::records {

/// The row of an event, or of metrics.jsonl if that is empty, as it is read from a file. `time`: seconds since 1970; 0:
/// none. `fields`: those of its kind, {{"code", 69}, {"cause", "why"}}.
inline Row row_of(const char* event, double time, nlohmann::json fields = nlohmann::json::object()) {
  if (*event) fields["event"] = event;
  if (time > 0) fields["time"] = time;
  return parse_row(fields.dump()).value();
}

}  // namespace distdl::records
