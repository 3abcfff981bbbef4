// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include <distdl/records/record.hpp>

namespace distdl::observe {

/// A number of a row under the name that TensorBoard, W&B and MLflow show: "train/loss".
struct Scalar {
  std::string_view tag;  ///< lives as long as the program
  double value;
};

/// The fields with a metric (records/kinds.hpp), but for those of all rows and the step itself. Tags: "train/FIELD" for
/// steps, "validation/FIELD" for evaluations, "KIND/FIELD" for others.
std::vector<Scalar> scalars_of(const records::Record& record);

}  // namespace distdl::observe
