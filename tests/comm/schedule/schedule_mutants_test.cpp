// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "tests/comm/schedule/schedule_cases.hpp"
#include "tests/comm/schedule/schedule_on_numbers.hpp"
#include <distdl/comm/algorithms/registry.hpp>

namespace distdl::comm {
namespace {

using Kind = ScheduleStep::Kind;

/// A right set of schedules.
struct Case {
  std::vector<Problem> problems;
  std::vector<Schedule> schedules;
  Order order = Order::deterministic;
  std::string name;
};

std::optional<Case> random_case(std::mt19937& random) {
  const auto collective = static_cast<Collective>(random() % 9);
  const Algorithm* algorithm = algorithms()[random() % algorithms().size()];
  const int size = 2 + static_cast<int>(random() % 6);
  Problem problem = problem_of(collective, size, 1 + random() % 200);
  for (std::size_t& count : problem.counts) count = random() % 60;
  problem.root = static_cast<int>(random() % size);
  if (algorithm == algorithm_of("hierarchical")) {
    problem.nodes =
        nodes_of(size, 1 + static_cast<int>(random() % 3), random() % 2 ? Layout::uneven : Layout::round_robin);
  }
  if (random() % 2 && problem.count > 0 && problem.send_counts.empty()) problem.count += 2100;  // enough to be cut
  Case found{for_each_rank(problem), {}, random() % 4 ? Order::deterministic : Order::any, ""};
  const Choice choice{algorithm, random() % 2 * 64, random() % 2 == 0, found.order};
  if (!is_possible(problem, choice)) return {};
  found.schedules = make_schedules(found.problems, choice);
  found.name = describe(problem, choice);
  return found;
}

/// Caught by the proof, apart or in place?
bool is_caught(const Case& it) {
  return !check_schedules(it.problems, it.schedules, it.order, false).empty() ||
         !check_schedules(it.problems, it.schedules, it.order, true).empty();
}

/// Seen to go wrong when run?
bool is_harmful(const Case& it) {
  for (unsigned seed = 0; seed < 12; ++seed)
    if (!run_on_numbers(it.problems, it.schedules, it.order, seed % 2, seed).empty()) return true;
  return false;
}

/// A random step of one of the kinds, of some rank.
ScheduleStep* pick(Case& it, std::mt19937& random, std::initializer_list<Kind> kinds, Schedule** owner = nullptr) {
  std::vector<std::pair<ScheduleStep*, Schedule*>> found;
  for (Schedule& schedule : it.schedules)
    for (ScheduleStep& step : schedule.steps)
      if (std::find(kinds.begin(), kinds.end(), step.kind) != kinds.end()) found.emplace_back(&step, &schedule);
  if (found.empty()) return nullptr;
  const auto [step, schedule] = found[random() % found.size()];
  if (owner) *owner = schedule;
  return step;
}

bool drop(Case& it, std::mt19937& random, std::initializer_list<Kind> kinds) {
  Schedule* owner = nullptr;
  const ScheduleStep* step = pick(it, random, kinds, &owner);
  if (step == nullptr) return false;
  owner->steps.erase(owner->steps.begin() + (step - owner->steps.data()));
  return true;
}

using Mutation = bool (*)(Case&, std::mt19937&);

bool drop_transfer(Case& it, std::mt19937& random) {
  return drop(it, random, {Kind::send, Kind::receive});
}
bool drop_wait(Case& it, std::mt19937& random) {
  return drop(it, random, {Kind::wait});
}
bool drop_reduce(Case& it, std::mt19937& random) {
  return drop(it, random, {Kind::reduce});
}
bool drop_signal(Case& it, std::mt19937& random) {
  return drop(it, random, {Kind::signal});
}
bool drop_await(Case& it, std::mt19937& random) {
  return drop(it, random, {Kind::await});
}

bool swap_adjacent_steps(Case& it, std::mt19937& random) {
  Schedule& schedule = it.schedules[random() % it.schedules.size()];
  if (schedule.steps.size() < 2) return false;
  const std::size_t at = random() % (schedule.steps.size() - 1);
  std::swap(schedule.steps[at], schedule.steps[at + 1]);
  return true;
}

bool shift_transfer(Case& it, std::mt19937& random) {
  ScheduleStep* step = pick(it, random, {Kind::send, Kind::receive});
  if (step == nullptr || step->block.count == 0) return false;
  step->block.first += random() % 2 ? 1 : static_cast<std::size_t>(-1);
  return true;
}

bool shorten_transfer(Case& it, std::mt19937& random) {
  ScheduleStep* step = pick(it, random, {Kind::send, Kind::receive});
  if (step == nullptr || step->block.count == 0) return false;
  --step->block.count;
  return true;
}

bool shift_source(Case& it, std::mt19937& random) {
  Schedule* owner = nullptr;
  const ScheduleStep* step = pick(it, random, {Kind::reduce}, &owner);
  if (step == nullptr) return false;
  owner->sources[step->sources + random() % step->source_count].block.first += random() % 2 ? 1 : std::size_t(-1);
  return true;
}

bool shift_target(Case& it, std::mt19937& random) {
  Schedule* owner = nullptr;
  const ScheduleStep* step = pick(it, random, {Kind::reduce}, &owner);
  if (step == nullptr) return false;
  owner->targets[step->targets + random() % step->target_count].first += random() % 2 ? 1 : std::size_t(-1);
  return true;
}

bool exchange_sources(Case& it, std::mt19937& random) {
  Schedule* owner = nullptr;
  const ScheduleStep* step = pick(it, random, {Kind::reduce}, &owner);
  if (step == nullptr || step->source_count < 2 || it.order == Order::any) return false;
  Operand* first = &owner->sources[step->sources + random() % (step->source_count - 1)];
  std::swap(first[0].block, first[1].block);
  return true;
}

bool change_reductions(Case& it, std::mt19937& random) {
  Schedule* owner = nullptr;
  const ScheduleStep* step = pick(it, random, {Kind::reduce}, &owner);
  if (step == nullptr) return false;
  owner->sources[step->sources + random() % step->source_count].reductions += random() % 2 ? 1 : 0xFFFF;
  return true;
}

bool flip_last(Case& it, std::mt19937& random) {
  ScheduleStep* step = pick(it, random, {Kind::reduce});
  if (step == nullptr) return false;
  step->last = !step->last;
  return true;
}

bool change_peer(Case& it, std::mt19937& random) {
  ScheduleStep* step = pick(it, random, {Kind::send, Kind::receive});
  if (step == nullptr) return false;
  step->peer = static_cast<int>((step->peer + 1 + random() % (it.problems.size() - 1)) % it.problems.size());
  return true;
}

bool repeat_transfer(Case& it, std::mt19937& random) {
  Schedule* owner = nullptr;
  const ScheduleStep* step = pick(it, random, {Kind::send, Kind::receive}, &owner);
  if (step == nullptr) return false;
  const ScheduleStep again = *step;
  owner->steps.insert(owner->steps.begin() + (step - owner->steps.data()), again);
  return true;
}

bool await_less(Case& it, std::mt19937& random) {
  ScheduleStep* step = pick(it, random, {Kind::await});
  if (step == nullptr) return false;
  --step->stage;
  return true;
}

bool wait_for_another_group(Case& it, std::mt19937& random) {
  Schedule* owner = nullptr;
  ScheduleStep* step = pick(it, random, {Kind::wait}, &owner);
  if (step == nullptr || owner->groups < 2) return false;
  step->group = static_cast<std::uint16_t>((step->group + 1) % owner->groups);
  return true;
}

bool forget_arrival(Case& it, std::mt19937& random) {
  Schedule& schedule = it.schedules[random() % it.schedules.size()];
  if (!schedule.reads_node_ranks) return false;
  schedule.reads_node_ranks = false;
  return true;
}

struct Family {
  const char* name;
  Mutation mutate;
  bool never_harmless;  ///< every mutant must be caught
};

// A mutant of the other families is harmless where something else makes good for it: a later wait or signal, what is
// known from a third rank, steps that do not touch each other.
constexpr Family kFamilies[] = {{"drop a transfer", drop_transfer, true},
                                {"shorten a transfer", shorten_transfer, true},
                                {"shift a transfer", shift_transfer, true},
                                {"change a peer", change_peer, true},
                                {"repeat a transfer", repeat_transfer, true},
                                {"shift a source", shift_source, true},
                                {"shift a target", shift_target, true},
                                {"exchange sources", exchange_sources, true},
                                {"change reductions", change_reductions, true},
                                {"flip last", flip_last, true},
                                {"drop a reduce step", drop_reduce, true},
                                {"forget the arrival", forget_arrival, false},
                                {"drop a signal", drop_signal, false},
                                {"drop a wait", drop_wait, false},
                                {"drop an await", drop_await, false},
                                {"await less", await_less, false},
                                {"wait for another group", wait_for_another_group, false},
                                {"swap steps", swap_adjacent_steps, false}};

TEST(ScheduleCheck, CatchesEveryMutantThatDoesHarm) {
  std::mt19937 random(11);
  for (const Family& family : kFamilies) {
    int mutants = 0, caught = 0, missed = 0;
    for (int trial = 0; trial < 20000 && mutants < 400 / kShare; ++trial) {
      auto it = random_case(random);
      if (!it || !family.mutate(*it, random)) continue;
      ++mutants;
      if (is_caught(*it)) {
        ++caught;
        continue;
      }
      EXPECT_FALSE(family.never_harmless) << family.name << ": " << it->name;
      if (is_harmful(*it)) {
        ++missed;
        ADD_FAILURE() << family.name << ": " << it->name;
      }
    }
    std::printf("%-24s %4d mutants, %4d caught, %d missed\n", family.name, mutants, caught, missed);
    EXPECT_GT(mutants, 100 / kShare) << family.name;
  }
}

TEST(ScheduleCheck, AgreesWithRunsOnNumbers) {
  std::mt19937 random(12);
  int cases = 0;
  for (int trial = 0; trial < 2000 / kShare; ++trial) {
    const auto it = random_case(random);
    if (!it) continue;
    ++cases;
    ASSERT_FALSE(is_caught(*it)) << it->name;
    for (unsigned seed : {1u, 2u, 3u, 4u})
      ASSERT_EQ(run_on_numbers(it->problems, it->schedules, it->order, seed % 2, random()), "") << it->name;
  }
  EXPECT_GT(cases, 300 / kShare);
}

}  // namespace
}  // namespace distdl::comm
