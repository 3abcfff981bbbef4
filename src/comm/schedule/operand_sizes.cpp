// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <distdl/comm/schedule/operand_sizes.hpp>

namespace distdl::comm {
namespace {

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

std::size_t input_size(const Problem& problem) {
  const bool root = problem.rank == problem.root;
  switch (problem.collective) {
    case Collective::barrier:
      return 0;
    case Collective::broadcast:
      return root ? problem.count : 0;
    case Collective::reduce:
    case Collective::all_reduce:
      return problem.count;
    case Collective::reduce_scatter:
      return sum_of(problem.counts);
    case Collective::all_gather:
    case Collective::gather:
      return problem.counts[problem.rank];
    case Collective::scatter:
      return root ? sum_of(problem.counts) : 0;
    case Collective::all_to_all:
      return sum_of(problem.send_counts);
  }
  return 0;
}

std::size_t output_size(const Problem& problem) {
  const bool root = problem.rank == problem.root;
  switch (problem.collective) {
    case Collective::barrier:
      return 0;
    case Collective::broadcast:
    case Collective::all_reduce:
      return problem.count;
    case Collective::reduce:
      return root ? problem.count : 0;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return problem.counts[problem.rank];
    case Collective::all_gather:
      return sum_of(problem.counts);
    case Collective::gather:
      return root ? sum_of(problem.counts) : 0;
    case Collective::all_to_all:
      return sum_of(problem.receive_counts);
  }
  return 0;
}

int input_parts(const Problem& problem) {
  const bool sums = problem.collective == Collective::reduce || problem.collective == Collective::all_reduce ||
                    problem.collective == Collective::reduce_scatter;
  return sums && !problem.ranges.empty() ? static_cast<int>(cover_size(problem.ranges[problem.rank], problem.leaves))
                                         : 1;
}

}  // namespace distdl::comm
