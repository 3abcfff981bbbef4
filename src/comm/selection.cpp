// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/comm/selection.hpp>

namespace distdl::comm {

Choice choose(const Problem& problem, Order order) {
  const bool one_node = std::all_of(problem.nodes.begin(), problem.nodes.end(),
                                    [&](int node) { return node == problem.nodes.front(); });
  std::vector<Algorithm> wishes;
  if (one_node && problem.size > 1) wishes = {Algorithm::shared_short, Algorithm::shared_direct};
  for (auto algorithm : {Algorithm::dissemination, Algorithm::binomial, Algorithm::pairwise}) wishes.push_back(algorithm);
  for (Algorithm algorithm : wishes) {
    const Choice choice{.algorithm = algorithm, .segment = std::max<std::size_t>(1, 256 * 1024 / problem.element),
                        .order = order};
    if (algorithm == Algorithm::binomial && problem.collective == Collective::reduce && problem.count > 65536) continue;
    if (is_possible(problem, choice)) return choice;
  }
  throw ConfigError("no algorithm for this collective");
}

}  // namespace distdl::comm
