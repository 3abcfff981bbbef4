// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace distdl::observe {

struct Options {
  std::string level = "info";  ///< lowest severity in the log: debug, info, warning or error
  std::string trace = "off";   ///< steps of which all ranks record what they do: "A:B", or off
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("log.level", options.level, "lowest severity that is logged: \"debug\", \"info\", \"warning\" or \"error\"");
  visit("log.trace", options.trace,
        "steps \"A:B\" of which all ranks record what they do, for \"distdl trace\"; \"off\": none");
}

}  // namespace distdl::observe
