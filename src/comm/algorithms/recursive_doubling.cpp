// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <functional>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/doubling_sum.hpp>

namespace distdl::comm {
namespace {

std::vector<LeafRange> leaves_in_order(const Problem& problem) {
  std::vector<LeafRange> leaves;
  for (const Term& term : terms_of(problem)) leaves.push_back(term.leaves);
  return leaves;
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

Generator generator(const Problem& problem, const Choice&) {
  if (problem.collective == Collective::all_reduce) return one_term_each(problem).empty() ? nullptr : doubling_sum;
  if (problem.collective != Collective::all_gather || !std::has_single_bit(unsigned(problem.size))) return nullptr;
  const bool equal =
      std::adjacent_find(problem.counts.begin(), problem.counts.end(), std::not_equal_to<>()) == problem.counts.end();
  return equal ? doubling_gather : nullptr;
}

double predicted_seconds(const CostModel& model) {
  double seconds = 0;
  const bool power_of_two = (model.ranks & (model.ranks - 1)) == 0;
  for (int k = 0; k < model.at.rounds(); ++k) {
    const double bytes = model.collective == Collective::all_gather ? model.slice * (1 << k) : model.total;
    const double transfer = model.hop(bytes, model.at.exchanging(k));
    seconds += model.phases_in() ? model.overlapped(transfer, model.add(bytes), bytes) : transfer;
  }
  return power_of_two ? seconds : seconds + model.hop(model.total, model.at.exchanging(model.at.rounds() - 1));
}

}  // namespace

/// log2(ranks) exchanges of everything, for any number of ranks.
extern const Algorithm kRecursiveDoubling{
    .name = "recursive_doubling",
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
