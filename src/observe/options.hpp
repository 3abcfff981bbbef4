// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace distdl::observe {

struct Options {
  std::string level = "info";  ///< lowest severity in the log: debug, info, warning or error
  /// A file that `distdl health --train` has written; empty: no predictions.
  std::string failure_predictor = {};
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("log.level", options.level, "lowest severity that is logged: \"debug\", \"info\", \"warning\" or \"error\"");
  visit("run.failure_predictor", options.failure_predictor,
        "a file of \"distdl health --train\": checkpoints are made more often while a node is likely to fail");
}

}  // namespace distdl::observe
