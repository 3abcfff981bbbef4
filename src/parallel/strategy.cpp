// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/listed.hpp>
#include <distdl/parallel/strategy.hpp>

namespace distdl::parallel {

const char* help_of_strategy() {
  std::vector<std::string> others;
  for (const StrategyRow& row : kStrategies)
    if (row.differs) others.push_back(fmt::format("\"{}\"{}", row.name.name, row.differs));
  return OneOf<Strategy>::help("what a rank holds of the training state; no bit of the result depends on it, but for " +
                               listed(others, "and"));
}

std::string strategies_with_compression() {
  std::vector<std::string> names;
  for (const StrategyRow& row : kStrategies)
    if (row.can_compress) names.push_back(fmt::format("\"{}\"", row.name.name));
  return listed(names);
}

}  // namespace distdl::parallel
