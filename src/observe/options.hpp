// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace distdl::observe {

struct Options {
  std::string level = "info";  ///< of the log: debug, info, warning, error
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("log.level", options.level, "lowest severity that is logged: \"debug\", \"info\", \"warning\" or \"error\"");
}

}  // namespace distdl::observe
