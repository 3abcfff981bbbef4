// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include <distdl/base/errors.hpp>
#include <distdl/comm/algorithms/families.hpp>
#include <distdl/comm/selection/selection.hpp>

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
  else if (problem.collective == Collective::all_to_all)
    most *= problem.size;
  else
    most = std::accumulate(problem.counts.begin(), problem.counts.end(), most);
  int parts = 1;
  if (is_sum(problem.collective))
    for (int each : parts_of(problem)) parts = std::max(parts, each);
  const std::size_t lines = (most * problem.element + 63) / 64;
  return lines * 64 * parts <= kSharedBytes && 64 % problem.element == 0;
}

Generator shared_all_to_all_generator(const Problem& problem, Algorithm algorithm) {
  if (problem.count == 0) return nullptr;
  switch (algorithm) {
    case Algorithm::shared_short:
      return fits_shared(problem) ? shared_short_all_to_all : nullptr;
    case Algorithm::shared_direct:
      return shared_direct_all_to_all;
    default:
      return shared_staged_all_to_all;
  }
}

Generator shared_generator(const Problem& problem, Algorithm algorithm) {
  const bool sums = is_sum(problem.collective);
  if (!one_node(problem)) return nullptr;
  if (problem.collective == Collective::all_to_all) return shared_all_to_all_generator(problem, algorithm);
  if (problem.collective == Collective::barrier) return algorithm == Algorithm::shared_short ? shared_barrier : nullptr;
  switch (algorithm) {
    case Algorithm::shared_short:
      if (!fits_shared(problem)) return nullptr;
      return sums ? shared_short_sum : shared_short_move;
    case Algorithm::shared_direct:
      return sums ? shared_direct_sum : shared_direct_move;
    default:
      if (!sums) return shared_staged_move;
      return staged_sum_length(problem) > 0 ? shared_staged_sum : nullptr;
  }
}

Generator pairwise_generator(const Problem& problem) {
  if (problem.collective == Collective::all_to_all) return pairwise_all_to_all;
  if (problem.collective == Collective::barrier) return nullptr;
  return is_sum(problem.collective) ? pairwise_sum : pairwise_move;
}

Generator doubling_generator(const Problem& problem) {
  if (problem.collective == Collective::all_reduce) return can_double(problem) ? doubling_sum : nullptr;
  if (problem.collective != Collective::all_gather || !std::has_single_bit(unsigned(problem.size))) return nullptr;
  const bool equal =
      std::adjacent_find(problem.counts.begin(), problem.counts.end(), std::not_equal_to<>()) == problem.counts.end();
  return equal ? doubling_gather : nullptr;
}

Generator halving_generator(const Problem& problem) {
  const bool sums = problem.collective == Collective::all_reduce || problem.collective == Collective::reduce_scatter;
  return sums && can_halve(problem) ? halving_sum : nullptr;
}

Generator ring_generator(const Problem& problem, Order order) {
  if (problem.collective == Collective::all_gather) return ring;
  const bool sums = problem.collective == Collective::all_reduce || problem.collective == Collective::reduce_scatter;
  return sums && order == Order::any && can_double(problem) ? ring : nullptr;
}

Generator tree_generator(Collective collective, const Choice& choice) {
  const bool one = choice.algorithm == Algorithm::binomial;
  switch (collective) {
    case Collective::broadcast:
      return one ? binomial_broadcast : double_tree_broadcast;
    case Collective::reduce:
      return one ? binomial_reduce : choice.order == Order::any ? double_tree_reduce : nullptr;
    case Collective::gather:
      return one ? binomial_gather : nullptr;
    case Collective::scatter:
      return one ? binomial_scatter : nullptr;
    default:
      return nullptr;
  }
}

Generator hierarchical_generator(const Problem& problem) {
  switch (problem.collective) {
    case Collective::barrier:
      return hierarchical_barrier;
    case Collective::broadcast:
      return hierarchical_broadcast;
    case Collective::reduce:
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return fits_hierarchical_sum(problem) ? hierarchical_sum : nullptr;
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter:
      return hierarchical_move;
    case Collective::all_to_all:
      return problem.count > 0 && fits_hierarchical_all_to_all(problem) ? hierarchical_all_to_all : nullptr;
  }
  return nullptr;
}

Generator generator_of(const Problem& problem, const Choice& choice) {
  switch (choice.algorithm) {
    case Algorithm::shared_short:
    case Algorithm::shared_direct:
    case Algorithm::shared_staged:
      return shared_generator(problem, choice.algorithm);
    case Algorithm::pairwise:
      return pairwise_generator(problem);
    case Algorithm::recursive_doubling:
      return doubling_generator(problem);
    case Algorithm::recursive_halving:
      return halving_generator(problem);
    case Algorithm::ring:
      return ring_generator(problem, choice.order);
    case Algorithm::binomial:
    case Algorithm::double_tree:
      return tree_generator(problem.collective, choice);
    case Algorithm::dissemination:
      return problem.collective == Collective::barrier ? dissemination_barrier : nullptr;
    case Algorithm::hierarchical:
      return hierarchical_generator(problem);
  }
  return nullptr;
}

void check(const Problem& problem) {
  const auto size = static_cast<std::size_t>(std::max(problem.size, 0));
  require(size > 0 && problem.rank >= 0 && problem.rank < problem.size, "rank {} of {}", problem.rank, problem.size);
  require(problem.root >= 0 && problem.root < problem.size, "root {} of {} ranks", problem.root, problem.size);
  require(problem.nodes.size() == size, "the nodes of {} ranks for {}", problem.nodes.size(), size);
  require(problem.element > 0, "elements of no bytes");
  require(problem.ranges.empty() || problem.ranges.size() == size, "leaves for {} ranks of {}", problem.ranges.size(),
          size);
  const bool has_slices = problem.collective == Collective::reduce_scatter ||
                          problem.collective == Collective::all_gather || problem.collective == Collective::gather ||
                          problem.collective == Collective::scatter;
  require(problem.counts.size() == (has_slices ? size : 0), "{} counts for {} ranks", problem.counts.size(), size);
  const std::size_t exchanged = problem.collective == Collective::all_to_all ? size : 0;
  require(problem.send_counts.size() == exchanged && problem.receive_counts.size() == exchanged,
          "{} counts to send and {} to receive for {} ranks", problem.send_counts.size(), problem.receive_counts.size(),
          size);
  const auto is_equal = [&](std::size_t count) { return problem.count == 0 || count == problem.count; };
  require(std::all_of(problem.send_counts.begin(), problem.send_counts.end(), is_equal) &&
              std::all_of(problem.receive_counts.begin(), problem.receive_counts.end(), is_equal),
          "the counts of an all-to-all differ from {}", problem.count);
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
  check(problem);
  const Generator generator = generator_of(problem, choice);
  require(generator != nullptr, "no schedule {} for {} of {} ranks; without a choice the fastest possible one is taken",
          name_of(choice.algorithm), name_of(problem.collective), problem.size);
  ScheduleBuilder build(problem, choice);
  generator(build);
  return build.take();
}

}  // namespace distdl::comm
