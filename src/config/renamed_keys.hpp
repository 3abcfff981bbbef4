// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace distdl::config {

/// A key of the job file that has another name now. Files, --set and old checkpoints may use the former one for one
/// version, with a warning that gives the present one.
struct RenamedKey {
  std::string former;   ///< "train.passes"
  std::string present;  ///< "train.epochs"
};

/// Those that this version still accepts.
const std::vector<RenamedKey>& renamed_keys();

}  // namespace distdl::config
