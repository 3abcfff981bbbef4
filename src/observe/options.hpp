// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace distdl::observe {

struct Options {
  std::string level = "info";  ///< lowest severity in the log: debug, info, warning or error
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("log.level", options.level, "lowest severity that is logged: \"debug\", \"info\", \"warning\" or \"error\"");
}

}  // namespace distdl::observe
