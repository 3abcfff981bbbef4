// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <utility>

#include <distdl/agent/decision.hpp>
#include <distdl/agent/options.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::agent {

std::size_t wanted_nodes(const Options& options, std::int64_t nodes) {
  return static_cast<std::size_t>(std::max(nodes - options.spares, options.most_nodes));
}

void check(const Options& options) {
  require(options.regrow_seconds >= 0 && options.regrow_seconds <= 86400,
          "run.regrow_seconds is {}, but must be between 0 and 86400", options.regrow_seconds);
  constexpr double kLongest = 86400;
  for (const auto& [name, count] :
       {std::pair("run.most_nodes", options.most_nodes), std::pair("run.spares", options.spares)})
    require(count >= 0 && count <= static_cast<std::int64_t>(kMostNodes), "{} is {}, but must be between 0 and {}",
            name, count, kMostNodes);
  for (const auto& [name, seconds, least] : {std::tuple("run.node_lost_seconds", options.node_lost_seconds, 1.0),
                                             std::tuple("run.rank_frozen_seconds", options.rank_frozen_seconds, 1.0)})
    require(seconds >= least && seconds <= kLongest, "{} is {}, but must be between {} and {}", name, seconds, least,
            kLongest);
  for (const auto& [name, seconds] : {std::pair("run.stalled_seconds", options.stalled_seconds),
                                      std::pair("run.stalled_save_seconds", options.stalled_save_seconds),
                                      std::pair("run.stalled_stop_seconds", options.stalled_stop_seconds),
                                      std::pair("run.stalled_at_most_seconds", options.stalled_at_most_seconds)})
    require(seconds >= 0 && seconds <= kLongest, "{} is {}, but must be between 0 and {}", name, seconds, kLongest);
}

}  // namespace distdl::agent
