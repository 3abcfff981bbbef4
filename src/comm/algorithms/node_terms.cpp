// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/algorithms/node_terms.hpp>

namespace distdl::comm {

bool has_result(const Problem& problem, int rank) {
  return problem.collective != Collective::reduce || rank == problem.root;
}

std::vector<std::uint16_t> reductions_of(const ScheduleBuilder& build, const std::vector<Term>& terms) {
  std::vector<LeafRange> leaves;
  leaves.reserve(terms.size());
  for (const Term& term : terms) leaves.push_back(term.leaves);
  return reductions_of(leaves, leaves_of(build.problem()), build.choice().order);
}

}  // namespace distdl::comm
