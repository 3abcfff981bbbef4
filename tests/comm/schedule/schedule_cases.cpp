// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/schedule/schedule_cases.hpp"

#include <fmt/format.h>

#include <distdl/comm/algorithms/registry.hpp>

namespace distdl::comm {

std::vector<int> nodes_of(int size, int nodes, Layout layout) {
  std::vector<int> node(size, 0);
  for (int r = 0; r < size; ++r) switch (layout) {
      case Layout::one_node:
        break;
      case Layout::own_nodes:
        node[r] = r;
        break;
      case Layout::blocks:
        node[r] = static_cast<int>(static_cast<long long>(r) * nodes / size);
        break;
      case Layout::uneven:  // about half of the ranks on the first node, a quarter on the next, ...
        while (node[r] + 1 < nodes && r >= size - (size >> (node[r] + 1))) ++node[r];
        break;
      case Layout::round_robin:
        node[r] = r % nodes;
        break;
    }
  return node;
}

Problem problem_of(Collective collective, int size, std::size_t count, std::size_t element) {
  Problem problem;
  problem.collective = collective;
  problem.size = size;
  problem.element = element;
  problem.nodes = nodes_of(size, 1, Layout::one_node);
  switch (collective) {
    case Collective::barrier:
    case Collective::all_to_all:
      break;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      problem.count = count;
      break;
    default:
      problem.counts.assign(size, count);
  }
  if (collective == Collective::all_to_all) {
    problem.count = count;
    problem.send_counts.assign(size, count);
    problem.receive_counts.assign(size, count);
  }
  return problem;
}

std::vector<Problem> for_each_rank(const Problem& problem) {
  std::vector<Problem> problems(problem.size, problem);
  for (int r = 0; r < problem.size; ++r) problems[r].rank = r;
  return problems;
}

std::vector<Schedule> make_schedules(const std::vector<Problem>& problems, const Choice& choice) {
  std::vector<Schedule> schedules;
  for (const Problem& problem : problems) schedules.push_back(make_schedule(problem, choice));
  return schedules;
}

std::string verdict(const std::vector<Problem>& problems, const Choice& choice) {
  const auto schedules = make_schedules(problems, choice);
  for (const bool in_place : {false, true})
    if (auto wrong = check_schedules(problems, schedules, choice.order, in_place); !wrong.empty())
      return describe(problems[0], choice) + (in_place ? ", in place: " : ": ") + wrong;
  return "";
}

std::string describe(const Problem& problem, const Choice& choice) {
  return fmt::format("collective {}, algorithm {}, {} ranks, root {}, count {}, segment {}, {} leaves",
                     static_cast<int>(problem.collective), choice.algorithm->name, problem.size, problem.root,
                     problem.count, choice.segment, problem.leaves);
}

}  // namespace distdl::comm
