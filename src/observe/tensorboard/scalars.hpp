// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/observe/records.hpp>

namespace distdl::observe {

/// A number of a row under the name that TensorBoard, W&B and MLflow show: "train/loss".
struct Scalar {
  std::string_view tag;  ///< lives as long as the program
  double value;
};

/// Of a row with a step: the fields with a `metric` in the table of records.hpp, but for those of all rows and the step
/// itself. Tags: "train/FIELD" for steps, "validation/FIELD" for evaluations, "KIND/FIELD" for others.
std::vector<Scalar> scalars_of(const RecordKind& kind, const nlohmann::ordered_json& row);

/// The kind of a row of metrics.jsonl or journal.jsonl; null: none that this version knows.
const RecordKind* kind_of_row(const nlohmann::ordered_json& row);

}  // namespace distdl::observe
