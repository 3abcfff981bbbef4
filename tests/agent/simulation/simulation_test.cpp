// SPDX-License-Identifier: Apache-2.0
// Schedules of faults, in simulated time. DISTDL_SCHEDULES=100000 tries more; DISTDL_SCHEDULE=<seed> repeats one and
// prints what happens.
#include <algorithm>
#include <cstdio>
#include <map>

#include <gtest/gtest.h>

#include "tests/agent/simulation/simulator.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>

namespace distdl::agent::simulation {
namespace {

#ifdef DISTDL_SANITIZED
constexpr long long kSchedules = 150;
#else
constexpr long long kSchedules = 5000;
#endif

class Report {
 public:
  void add(const Schedule& schedule, const Outcome& outcome) {
    events_ += outcome.events;
    most_generations_ = std::max(most_generations_, outcome.generations);
    ++ends_[outcome.end];
    grown_ += outcome.has_grown;
    gave_up_ += outcome.gave_up.has_value();
    if (schedule.kind != Kind::single || !outcome.recovery) return;
    auto& [sum, count, longest] = recoveries_[schedule.faults.front().kind];
    const double seconds = std::chrono::duration<double>(*outcome.recovery).count();
    sum += seconds;
    ++count;
    longest = std::max(longest, seconds);
  }
  void print(long long schedules, double seconds) const {
    std::printf("%lld schedules, %zu events in %.1f s; at most %u generations\n", schedules, events_, seconds,
                most_generations_);
    for (const auto& [code, count] : ends_)
      code ? std::printf("  ended with %d: %zu\n", *code, count) : std::printf("  without decision: %zu\n", count);
    std::printf("  took nodes in again: %zu; an agent gave up alone: %zu\n", grown_, gave_up_);
    for (const auto& [kind, numbers] : recoveries_)
      std::printf("  %s: training again after %.2f s on average, %.2f s at most, of %zu\n", name_of(kind),
                  numbers.sum / static_cast<double>(numbers.count), numbers.longest, numbers.count);
  }

 private:
  struct Numbers {
    double sum = 0;
    std::size_t count = 0;
    double longest = 0;
  };
  std::size_t events_ = 0;
  std::uint32_t most_generations_ = 0;
  std::map<std::optional<int>, std::size_t> ends_;
  std::size_t grown_ = 0, gave_up_ = 0;
  std::map<FaultKind, Numbers> recoveries_;
};

TEST(Simulation, KeepsItsPromisesInEverySchedule) {
  const auto one = env_integer("DISTDL_SCHEDULE");
  const long long first = one.value_or(env_integer("DISTDL_FIRST_SCHEDULE").value_or(1));
  const long long count = one ? 1 : env_integer("DISTDL_SCHEDULES").value_or(kSchedules);
  const Stopwatch watch;
  Report report;
  int failures = 0;
  for (long long seed = first; seed < first + count && failures < 5; ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    const Outcome outcome = simulate(number, {}, one.has_value());
    const Schedule schedule = make_schedule(number);
    report.add(schedule, outcome);
    if (outcome.broken.empty()) continue;
    ++failures;
    ADD_FAILURE() << describe(schedule) << "\n" << outcome.broken.front();
  }
  report.print(count, watch.seconds());
}

/// Four nodes and a spare. A rank or a node is lost, and in each moment of the recovery something else happens to the
/// first node, to another member or to the spare.
TEST(Simulation, GoesOnAfterASecondFaultInEachMomentOfARecovery) {
  using enum FaultKind;
  using namespace std::chrono_literals;
#ifdef DISTDL_SANITIZED
  constexpr Milliseconds kEach = 3s;
#else
  constexpr Milliseconds kEach = 100ms;
#endif
  Schedule schedule;
  schedule.kind = Kind::storm;
  schedule.nodes = 5;
  schedule.steps = 140;
  schedule.rules.wanted = schedule.rules.own_wanted = 4;
  schedule.rules.min_nodes = 1;
  schedule.rules.own = schedule.nodes;
  constexpr Milliseconds kFirst = 8s, kLast = 14s;
  int failures = 0;
  for (const FaultKind first : {rank_crash, node_crash})
    for (const FaultKind second : {rank_crash, rank_freeze, node_crash, agent_crash, isolation, ledger_outage})
      for (const std::uint32_t node : {0u, 2u, 4u})
        for (Milliseconds at = kFirst; at <= kLast && failures < 5; at += kEach) {
          schedule.faults = {{.kind = first, .at = kFirst, .node = 1, .code = 139},
                             {.kind = second, .at = at, .duration = 10s, .node = node, .code = 137, .hangs = true}};
          schedule.faults_end = at + schedule.faults.back().duration;
          schedule.seed = static_cast<std::uint64_t>(at.count());
          const Outcome outcome = Simulator(schedule, {}).run();
          // An agent gives up alone after 60 s without a decision.
          if (outcome.broken.empty() && outcome.end == 0 && !outcome.gave_up && outcome.generations > 1) continue;
          ++failures;
          ADD_FAILURE() << describe(schedule) << "\nended with " << outcome.end.value_or(-1)
                        << ", gave up: " << outcome.gave_up.value_or("no") << ", generations " << outcome.generations
                        << "\n"
                        << (outcome.broken.empty() ? "" : outcome.broken.front());
        }
}

}  // namespace
}  // namespace distdl::agent::simulation
