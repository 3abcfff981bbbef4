// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/doubling_sum.hpp>
#include <distdl/comm/algorithms/families.hpp>

namespace distdl::comm {
namespace {

std::vector<LeafRange> leaves_in_order(const Problem& problem) {
  std::vector<LeafRange> leaves;
  for (const Term& term : terms_of(problem)) leaves.push_back(term.leaves);
  return leaves;
}

}  // namespace

std::vector<int> one_term_each(const Problem& problem) {
  const std::vector<Term> terms = terms_of(problem);
  std::vector<int> members;
  members.reserve(terms.size());
  for (const Term& term : terms) members.push_back(term.rank);
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  const bool once = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  return once && static_cast<int>(members.size()) == problem.size ? members : std::vector<int>{};
}

bool can_double(const Problem& problem) {
  return !one_term_each(problem).empty();
}

void doubling_sum(ScheduleBuilder& build) {
  const Block result = build.output(build.whole());
  DoublingSum sum(build, one_term_each(build.problem()), leaves_in_order(build.problem()), leaves_of(build.problem()),
                  build.whole().count);
  sum.run(build.input(build.whole()), {&result, 1});
}

void doubling_gather(ScheduleBuilder& build) {
  const int self = build.rank(), group = build.new_group();
  const auto slices = [&](int first, int count) {
    return build.output({build.slice(first).first, build.slice(first).count * count});
  };
  build.copy(build.input(build.slice(self)), build.output(build.slice(self)));
  for (int bit = 1; bit < build.size(); bit *= 2) {
    const int partner = self ^ bit;
    build.receive(partner, slices(partner & ~(bit - 1), bit), group);
    build.send(partner, slices(self & ~(bit - 1), bit), group);
    build.wait(group);
  }
}

}  // namespace distdl::comm
