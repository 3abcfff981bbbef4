// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <gtest/gtest.h>

#include "tests/comm/schedule_cases.hpp"

namespace distdl::comm {
namespace {

constexpr Collective kCollectives[] = {Collective::barrier,    Collective::broadcast,      Collective::reduce,
                                       Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                       Collective::all_to_all, Collective::gather,         Collective::scatter};
constexpr Algorithm kAlgorithms[] = {
    Algorithm::shared_short,       Algorithm::shared_direct,     Algorithm::shared_staged, Algorithm::pairwise,
    Algorithm::recursive_doubling, Algorithm::recursive_halving, Algorithm::ring,          Algorithm::binomial,
    Algorithm::double_tree,        Algorithm::hierarchical,      Algorithm::dissemination};

TEST(Schedule, IsRightForEveryCollectiveAlgorithmAndSmallSize) {
  int schedules = 0;
  for (Collective collective : kCollectives)
    for (Algorithm algorithm : kAlgorithms)
      for (int size = 1; size <= 33; ++size)
        for (std::size_t count : {0, 1, 37, 2049, 5003})
          for (std::size_t segment : {0, 128}) {
            Problem problem = problem_of(collective, size, count);
            problem.root = static_cast<int>((count + 1) % size);
            const Choice choice{algorithm, segment, false, Order::fixed};
            if (!is_possible(problem, choice)) continue;
            ASSERT_EQ(verdict(for_each_rank(problem), choice), "");
            ++schedules;
          }
  EXPECT_GT(schedules, 1000);
}

}  // namespace
}  // namespace distdl::comm
