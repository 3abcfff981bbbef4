// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/base/errors.hpp>
#include <distdl/comm/schedule_families.hpp>

namespace distdl::comm {
namespace {

using Generator = void (*)(ScheduleBuilder&);

bool is_sum(Collective collective) {
  return collective == Collective::reduce || collective == Collective::all_reduce ||
         collective == Collective::reduce_scatter;
}

bool one_node(const Problem& problem) {
  return std::all_of(problem.nodes.begin(), problem.nodes.end(), [&](int node) { return node == problem.nodes[0]; });
}

/// Does what shared_short copies fit?
bool fits_shared(const Problem& problem) {
  std::size_t most = problem.count;
  if (problem.collective == Collective::all_gather || problem.collective == Collective::gather)
    for (std::size_t count : problem.counts) most = std::max(most, count);
  else
    most = std::accumulate(problem.counts.begin(), problem.counts.end(), most);
  int parts = 1;
  if (is_sum(problem.collective))
    for (int each : parts_of(problem)) parts = std::max(parts, each);
  const std::size_t lines = (most * problem.element + 63) / 64;
  return lines * 64 * parts <= kSharedBytes && 64 % problem.element == 0;
}

Generator shared_generator(Collective collective, Algorithm algorithm) {
  if (collective == Collective::barrier) return algorithm == Algorithm::shared_short ? shared_barrier : nullptr;
  if (collective == Collective::all_to_all) return nullptr;
  switch (algorithm) {
    case Algorithm::shared_short:
      return is_sum(collective) ? shared_short_sum : shared_short_move;
    case Algorithm::shared_direct:
      return is_sum(collective) ? shared_direct_sum : shared_direct_move;
    default:
      return nullptr;
  }
}

Generator generator_of(const Problem& problem, const Choice& choice) {
  const Collective collective = problem.collective;
  switch (choice.algorithm) {
    case Algorithm::shared_short:
      return one_node(problem) && fits_shared(problem) ? shared_generator(collective, choice.algorithm) : nullptr;
    case Algorithm::shared_direct:
    case Algorithm::shared_staged:
      return one_node(problem) ? shared_generator(collective, choice.algorithm) : nullptr;
    case Algorithm::pairwise:
      if (collective == Collective::barrier || collective == Collective::all_to_all) return nullptr;
      return is_sum(collective) ? pairwise_sum : pairwise_move;
    case Algorithm::binomial:
      return collective == Collective::broadcast ? binomial_broadcast : nullptr;
    case Algorithm::dissemination:
      return collective == Collective::barrier ? dissemination_barrier : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

std::ptrdiff_t in_place_offset(const Problem& problem) {
  const bool own_slice_in = problem.collective == Collective::all_gather || problem.collective == Collective::gather;
  const bool own_slice_out =
      problem.collective == Collective::reduce_scatter || problem.collective == Collective::scatter;
  if (!own_slice_in && !own_slice_out) return 0;
  const auto begin = static_cast<std::ptrdiff_t>(
      std::accumulate(problem.counts.begin(), problem.counts.begin() + problem.rank, std::size_t{0}));
  return own_slice_in ? begin : -begin;
}

bool is_possible(const Problem& problem, const Choice& choice) {
  return generator_of(problem, choice) != nullptr;
}

Schedule make_schedule(const Problem& problem, const Choice& choice) {
  const Generator generator = generator_of(problem, choice);
  require(generator != nullptr, "no schedule of algorithm {} for collective {} of {} ranks",
          static_cast<int>(choice.algorithm), static_cast<int>(problem.collective), problem.size);
  ScheduleBuilder build(problem, choice);
  generator(build);
  return build.take();
}

}  // namespace distdl::comm
