// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "tests/comm/schedule/schedule_cases.hpp"
#include <distdl/comm/algorithms/registry.hpp>

namespace distdl::comm {
namespace {

#ifdef DISTDL_SANITIZED
constexpr int kMostRanks = 13;
constexpr int kLargeSizes[] = {48, 63, 64, 65, 100};
constexpr int kSizesWhereAllMeet[] = {64};
constexpr int kSizesOfANode[] = {48};
#else
constexpr int kMostRanks = 33;
constexpr int kLargeSizes[] = {48, 63, 64, 65, 96, 100, 127, 128, 257, 1000};
constexpr int kSizesWhereAllMeet[] = {64, 129};
constexpr int kSizesOfANode[] = {48, 64, 100, 128};
#endif

constexpr Collective kCollectives[] = {Collective::barrier,    Collective::broadcast,      Collective::reduce,
                                       Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                       Collective::all_to_all, Collective::gather,         Collective::scatter};

TEST(Schedule, IsRightForEveryCollectiveAlgorithmAndSmallSize) {
  int schedules = 0;
  for (Collective collective : kCollectives)
    for (const Algorithm* algorithm : algorithms())
      for (int size = 1; size <= kMostRanks; ++size)
        for (std::size_t count : {0, 1, 37, 2049, 5003})
          for (Order order : {Order::deterministic, Order::any}) {
            Problem problem = problem_of(collective, size, count);
            problem.root = static_cast<int>((count + 1) % size);
            const Choice choice{algorithm, count % 4 == 1 ? 128u : 0u, false, order};
            if (!is_possible(problem, choice) || (order == Order::any && !is_sum(collective))) continue;
            ASSERT_EQ(verdict(for_each_rank(problem), choice), "");
            ++schedules;
          }
  EXPECT_GT(schedules, 1000);
}

/// Leaves cut at random places, given to the ranks in random order; some ranks may get none.
std::vector<LeafRange> random_ranges(int ranks, int leaves, std::mt19937& random) {
  std::vector<int> cuts{0, leaves};
  for (int i = 1; i < ranks; ++i) cuts.push_back(static_cast<int>(random() % (leaves + 1)));
  std::sort(cuts.begin(), cuts.end());
  std::vector<LeafRange> ranges;
  for (int i = 0; i < ranks; ++i) ranges.push_back({cuts[i], cuts[i + 1] - cuts[i]});
  std::shuffle(ranges.begin(), ranges.end(), random);
  return ranges;
}

TEST(Schedule, SumsAlongTheTreeHoweverTheLeavesLie) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300 / kShare; ++trial)
    for (Collective collective : {Collective::reduce, Collective::all_reduce, Collective::reduce_scatter})
      for (const Algorithm* algorithm : algorithms())
        for (Order order : {Order::deterministic, Order::any}) {
          const int size = 1 + static_cast<int>(random() % 13);
          Problem problem = problem_of(collective, size, std::size_t{1} << random() % 13);
          for (std::size_t& count : problem.counts) count = random() % 300;
          problem.root = static_cast<int>(random() % size);
          problem.leaves = 1 + static_cast<int>(random() % 40);
          problem.ranges = random_ranges(size, problem.leaves, random);
          const Choice choice{algorithm, random() % 2 * 64, false, order};
          if (!is_possible(problem, choice)) continue;
          ASSERT_EQ(verdict(for_each_rank(problem), choice), "");
        }
}

TEST(Schedule, IsRightWhereverTheRanksRun) {
  std::mt19937 random(8);
  std::map<Collective, int> checked;
  for (int trial = 0; trial < 400 / kShare; ++trial)
    for (Collective collective : kCollectives)
      for (Layout layout : {Layout::own_nodes, Layout::blocks, Layout::uneven, Layout::round_robin})
        for (Order order : {Order::deterministic, Order::any}) {
          const int size = 1 + static_cast<int>(random() % 13), most = collective == Collective::all_to_all ? 14 : 17;
          Problem problem = problem_of(collective, size, (std::size_t{1} << random() % most) - random() % 2);
          for (std::size_t& count : problem.counts) count = random() % 3 * (random() % 3000);
          problem.nodes = nodes_of(size, 1 + static_cast<int>(random() % 4), layout);
          problem.root = static_cast<int>(random() % size);
          if (random() % 2) {
            problem.leaves = 1 + static_cast<int>(random() % 40);
            problem.ranges = random_ranges(size, problem.leaves, random);
          }
          const std::size_t segment = random() % 2 * 1000;
          if (!is_possible(problem, {algorithm_of("hierarchical"), segment, false, order})) continue;
          ++checked[collective];
          const auto problems = for_each_rank(problem);
          std::vector<Schedule> schedules;
          const unsigned staged = random();  // differs by node
          for (const Problem& each : problems)
            schedules.push_back(make_schedule(
                each, {algorithm_of("hierarchical"), segment, (staged >> each.nodes[each.rank] & 1) != 0, order}));
          for (bool in_place : {false, true})
            ASSERT_EQ(check_schedules(problems, schedules, order, in_place), "")
                << describe(problem, {algorithm_of("hierarchical"), segment});
        }
  for (Collective collective : kCollectives)
    EXPECT_GT(checked[collective], 1000 / kShare) << static_cast<int>(collective);
}

TEST(Schedule, AnAllToAllThatIsNotInPlaceNeedsNoSwap) {
  for (int size = 2; size < 8; ++size)
    for (std::size_t count : {1, 17, 5000}) {
      const auto problems = for_each_rank(problem_of(Collective::all_to_all, size, count));
      Choice choice{algorithm_of("shared_direct")};
      choice.disjoint = true;
      const auto schedules = make_schedules(problems, choice);
      EXPECT_EQ(check_schedules(problems, schedules, Order::deterministic, false), "") << size << " ranks, " << count;
      EXPECT_NE(check_schedules(problems, schedules, Order::deterministic, true), "") << "in place it would be wrong";
    }
}

TEST(Schedule, MovesSlicesOfAnyLength) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 100 / kShare; ++trial)
    for (Collective collective :
         {Collective::reduce_scatter, Collective::all_gather, Collective::gather, Collective::scatter})
      for (const Algorithm* algorithm : algorithms())
        for (Order order : {Order::deterministic, Order::any}) {
          const int size = 1 + static_cast<int>(random() % 13);
          Problem problem = problem_of(collective, size, 0);
          for (std::size_t& count : problem.counts) count = random() % 3 * (random() % 3000);
          problem.root = static_cast<int>(random() % size);
          const Choice choice{algorithm, random() % 2 * 64, false, order};
          if (!is_possible(problem, choice) || (order == Order::any && !is_sum(collective))) continue;
          ASSERT_EQ(verdict(for_each_rank(problem), choice), "");
        }
}

TEST(Schedule, GivesEachRankWhatTheOthersHaveForIt) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int size = 1 + static_cast<int>(random() % 20);
    auto problems = for_each_rank(problem_of(Collective::all_to_all, size, 0));
    for (int from = 0; from < size; ++from)
      for (int to = 0; to < size; ++to)
        problems[from].send_counts[to] = problems[to].receive_counts[from] = random() % 2 * (random() % 100);
    const auto schedules = make_schedules(problems, {algorithm_of("pairwise")});
    ASSERT_EQ(check_schedules(problems, schedules, Order::deterministic, false), "");
  }
}

/// A few hundred ranks on nodes of 48, and one that is smaller.
Problem large_problem(Collective collective, int size, std::size_t count) {
  Problem problem = problem_of(collective, size, count);
  for (int r = 0; r < size; ++r) problem.nodes[r] = r / 48;
  problem.root = size / 3;
  return problem;
}

TEST(Schedule, IsRightForAThousandRanks) {
  const std::pair<Collective, std::string_view> kinds[] = {{Collective::barrier, "dissemination"},
                                                           {Collective::barrier, "hierarchical"},
                                                           {Collective::broadcast, "binomial"},
                                                           {Collective::broadcast, "double_tree"},
                                                           {Collective::broadcast, "hierarchical"},
                                                           {Collective::reduce, "binomial"},
                                                           {Collective::reduce, "double_tree"},
                                                           {Collective::reduce, "hierarchical"},
                                                           {Collective::all_reduce, "recursive_doubling"},
                                                           {Collective::all_reduce, "recursive_halving"},
                                                           {Collective::all_reduce, "hierarchical"},
                                                           {Collective::all_gather, "recursive_doubling"},
                                                           {Collective::gather, "binomial"},
                                                           {Collective::scatter, "binomial"},
                                                           {Collective::gather, "hierarchical"},
                                                           {Collective::scatter, "hierarchical"},
                                                           {Collective::reduce_scatter, "recursive_halving"},
                                                           {Collective::reduce_scatter, "hierarchical"}};
  for (int size : kLargeSizes)
    for (auto [collective, algorithm] : kinds) {
      // Sums of every node for every rank: a few of these sizes take long enough.
      if (collective == Collective::reduce_scatter && size > 257 && size != 1000) continue;
      const bool vector = collective == Collective::broadcast || collective == Collective::reduce ||
                          collective == Collective::all_reduce;
      const Problem problem = large_problem(collective, size, vector ? 20011 : 3);
      const Choice choice{algorithm_of(algorithm), 0, size % 2 == 0,
                          algorithm == "double_tree" ? Order::any : Order::deterministic};
      if (!is_possible(problem, choice)) continue;
      ASSERT_EQ(verdict(for_each_rank(problem), choice), "");
    }
}

/// These have as many steps as ranks on each rank.
TEST(Schedule, IsRightWhereEveryoneMeetsEveryone) {
  const std::pair<Collective, std::string_view> kinds[] = {
      {Collective::all_reduce, "pairwise"},     {Collective::reduce, "pairwise"},
      {Collective::reduce_scatter, "pairwise"}, {Collective::all_gather, "pairwise"},
      {Collective::all_to_all, "pairwise"},     {Collective::all_reduce, "ring"},
      {Collective::reduce_scatter, "ring"},     {Collective::all_gather, "ring"},
      {Collective::all_gather, "hierarchical"}, {Collective::all_to_all, "hierarchical"}};
  for (int size : kSizesWhereAllMeet)
    for (auto [collective, algorithm] : kinds) {
      const bool vector = collective == Collective::all_reduce || collective == Collective::reduce;
      const Problem problem = large_problem(collective, size, vector ? 16 * size + 5 : 3);
      const Choice choice{algorithm_of(algorithm), 0, false, algorithm == "ring" ? Order::any : Order::deterministic};
      const auto problems = for_each_rank(problem);
      const auto schedules = make_schedules(problems, choice);
      ASSERT_EQ(check_schedules(problems, schedules, choice.order, size % 2 == 0), "") << describe(problem, choice);
    }
}

TEST(Schedule, IsRightForManyRanksOnOneNode) {
  for (int size : kSizesOfANode)
    for (Collective collective : kCollectives)
      for (std::string_view name : {"shared_short", "shared_direct", "shared_staged"}) {
        const Algorithm* algorithm = algorithm_of(name);
        const Problem problem = problem_of(collective, size, collective == Collective::all_reduce ? 5003 : 7);
        if (!is_possible(problem, {algorithm})) continue;
        ASSERT_EQ(verdict(for_each_rank(problem), {algorithm}), "");
      }
}

}  // namespace
}  // namespace distdl::comm
