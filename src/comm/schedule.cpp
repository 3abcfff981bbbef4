// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/schedule.hpp>

namespace distdl::comm {
namespace {

constexpr std::array kCollectives = {
    std::pair{Collective::barrier, "barrier"},
    std::pair{Collective::broadcast, "broadcast"},
    std::pair{Collective::reduce, "reduce"},
    std::pair{Collective::all_reduce, "all_reduce"},
    std::pair{Collective::reduce_scatter, "reduce_scatter"},
    std::pair{Collective::all_gather, "all_gather"},
    std::pair{Collective::all_to_all, "all_to_all"},
    std::pair{Collective::gather, "gather"},
    std::pair{Collective::scatter, "scatter"},
};

}  // namespace

std::string_view name_of(Collective collective) {
  for (const auto& [each, name] : kCollectives)
    if (each == collective) return name;
  return "?";
}

bool is_sum(Collective collective) {
  return collective == Collective::reduce || collective == Collective::all_reduce ||
         collective == Collective::reduce_scatter;
}

bool is_on_one_node(const Problem& problem) {
  return std::all_of(problem.nodes.begin(), problem.nodes.end(), [&](int node) { return node == problem.nodes[0]; });
}

void check(const Problem& problem) {
  const auto size = static_cast<std::size_t>(std::max(problem.size, 0));
  require(size > 0 && problem.rank >= 0 && problem.rank < problem.size, "rank {} is not in a world of {} ranks",
          problem.rank, problem.size);
  require(problem.root >= 0 && problem.root < problem.size, "root {} is not in a world of {} ranks", problem.root,
          problem.size);
  require(problem.nodes.size() == size, "nodes were given for {} ranks, but there are {}", problem.nodes.size(), size);
  require(problem.element > 0, "elements must have at least one byte");
  require(problem.ranges.empty() || problem.ranges.size() == size,
          "leaf ranges were given for {} ranks, but there are {}", problem.ranges.size(), size);
  const bool has_slices = problem.collective == Collective::reduce_scatter ||
                          problem.collective == Collective::all_gather || problem.collective == Collective::gather ||
                          problem.collective == Collective::scatter;
  require(problem.counts.size() == (has_slices ? size : 0), "{} counts were given for {} ranks", problem.counts.size(),
          size);
  const std::size_t exchanged = problem.collective == Collective::all_to_all ? size : 0;
  require(problem.send_counts.size() == exchanged && problem.receive_counts.size() == exchanged,
          "{} counts to send and {} to receive were given for {} ranks", problem.send_counts.size(),
          problem.receive_counts.size(), size);
  const auto is_equal = [&](std::size_t count) { return problem.count == 0 || count == problem.count; };
  require(std::all_of(problem.send_counts.begin(), problem.send_counts.end(), is_equal) &&
              std::all_of(problem.receive_counts.begin(), problem.receive_counts.end(), is_equal),
          "the counts of an all-to-all differ from {}", problem.count);
}

std::ptrdiff_t in_place_offset(const Problem& problem) {
  const bool own_slice_in = problem.collective == Collective::all_gather || problem.collective == Collective::gather;
  const bool own_slice_out =
      problem.collective == Collective::reduce_scatter || problem.collective == Collective::scatter;
  if (!own_slice_in && !own_slice_out) return 0;
  const auto begin = static_cast<std::ptrdiff_t>(
      std::accumulate(problem.counts.begin(), problem.counts.begin() + problem.rank, std::size_t{0}));
  return own_slice_in ? begin : -begin;
}

}  // namespace distdl::comm
