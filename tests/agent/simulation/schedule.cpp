// SPDX-License-Identifier: Apache-2.0
#include "tests/agent/simulation/schedule.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tests/agent/simulation/event_queue.hpp"

namespace distdl::agent::simulation {
namespace {
using namespace std::chrono_literals;

constexpr std::array<const char*, 14> kNames{
    "rank crash", "rank freeze", "agent starved", "node freeze",   "node crash", "agent crash", "isolation",
    "link cut",   "one-way cut", "partition",     "ledger outage", "bad node",   "slow end",    "stop"};

std::uint32_t draw_node(Random& random, const Schedule& schedule) {
  return static_cast<std::uint32_t>(random.below(schedule.nodes));
}

void draw_nodes(Random& random, Schedule& schedule) {
  schedule.nodes = 1 + random.below(7);
  Rules& rules = schedule.rules;
  rules.wanted = 1 + random.below(schedule.nodes);
  if (random.chance(0.3)) rules.wanted = schedule.nodes;
  rules.min_nodes = 1 + random.below(rules.wanted);
  if (random.chance(0.5)) rules.min_nodes = 1;
  if (random.chance(0.5)) rules.regrow_after = 5s;
}

Disturbance draw_disturbance(Random& random, Kind kind) {
  Disturbance disturbance;
  disturbance.delay = random.between(1ms, 300ms);
  disturbance.repeat = random.chance(0.5) ? 0.2 : 0;
  disturbance.slow = random.chance(0.5) ? 0.1 : 0;
  disturbance.stale = random.chance(0.3) ? 0.03 : 0;
  // With more than that, eight heartbeats in a row may be lost by chance.
  const double most = kind == Kind::storm ? 0.3 : 0.03;
  disturbance.drop = random.chance(0.7) ? most * random.uniform() : 0;
  return disturbance;
}

/// Agents that do not run for a while, in which datagrams are lost: one at a time, again and again, and each while is
/// short enough for the others.
void add_starvation(Random& random, Schedule& schedule) {
  if (schedule.disturbance.drop > 0 || random.chance(0.3)) return;
  Milliseconds at = 3s;
  for (auto bursts = random.below(4); bursts > 0; --bursts) {
    const auto node = draw_node(random, schedule);
    at += random.between(2s, 4s);
    for (auto times = 1 + random.below(4); times > 0; --times) {
      const auto duration = random.between(500ms, 1800ms);
      schedule.faults.push_back({.kind = FaultKind::agent_starved, .at = at, .duration = duration, .node = node});
      at += duration + random.between(2ms, 60ms);
    }
  }
}

Fault draw_fault(Random& random, const Schedule& schedule, FaultKind kind) {
  constexpr std::array kCodes{139, 137, 134, 70, 71, 69, 0, 72};
  Fault fault{.kind = kind, .node = draw_node(random, schedule)};
  fault.other = static_cast<std::uint32_t>(
      (fault.node + 1 + random.below(std::max<std::size_t>(1, schedule.nodes - 1))) % schedule.nodes);
  fault.part = static_cast<std::uint32_t>(random.below(1u << schedule.nodes));
  fault.code = kCodes[random.below(kCodes.size())];
  fault.hangs = random.chance(0.5);
  fault.at = random.between(0s, 40s);
  fault.duration = random.between(500ms, 20s);
  return fault;
}

/// One fault while the ranks train, with nodes left to go on.
void add_single_fault(Random& random, Schedule& schedule) {
  constexpr std::array kKinds{FaultKind::rank_crash, FaultKind::rank_freeze, FaultKind::node_freeze,
                              FaultKind::node_crash, FaultKind::agent_crash, FaultKind::isolation,
                              FaultKind::link_cut,   FaultKind::one_way_cut, FaultKind::bad_node,
                              FaultKind::stop};
  while (schedule.nodes < 2) draw_nodes(random, schedule);
  Fault fault = draw_fault(random, schedule, kKinds[random.below(kKinds.size())]);
  fault.at = random.between(6s, 12s);
  fault.duration = random.between(9s, 25s);
  schedule.rules.min_nodes = 1;
  constexpr std::array kCrashes{139, 137, 70, 78, 72};
  if (fault.kind == FaultKind::rank_crash) fault.code = kCrashes[random.below(kCrashes.size())];
  if (fault.kind == FaultKind::bad_node) {  // only a spare helps
    fault.at = 0ms;
    schedule.rules.wanted = std::min(schedule.rules.wanted, schedule.nodes - 1);
  }
  const bool takes_node_away =
      fault.kind != FaultKind::rank_crash && fault.kind != FaultKind::rank_freeze && fault.kind != FaultKind::stop;
  if (takes_node_away && schedule.rules.wanted == 1) {
    schedule.rules.wanted = 2;  // a spare alone does not take over
    if (fault.kind == FaultKind::bad_node) schedule.nodes = std::max<std::size_t>(schedule.nodes, 3);
  }
  schedule.faults.push_back(fault);
}

void add_storm(Random& random, Schedule& schedule) {
  for (auto count = 1 + random.below(12); count > 0; --count) {
    const auto kind = static_cast<FaultKind>(random.below(kNames.size()));
    // A stop or a bad node each time would hide the rest.
    if ((kind == FaultKind::stop || kind == FaultKind::bad_node) && random.chance(0.6)) continue;
    Fault fault = draw_fault(random, schedule, kind);
    if (kind == FaultKind::rank_crash && random.chance(0.05)) fault.code = random.chance(0.5) ? 78 : 74;
    schedule.faults.push_back(fault);
    if (random.chance(0.3) && !schedule.faults.empty()) {  // a second one at about the same time
      Fault second = draw_fault(random, schedule, static_cast<FaultKind>(random.below(11)));
      second.at = std::max(0ms, fault.at + random.between(-1s, 6s));
      schedule.faults.push_back(second);
    }
  }
}

/// Nodes that join, some of which leave again. Not where they would hide what one fault does.
void add_joining(Random& random, Schedule& schedule) {
  const bool is_single = schedule.kind == Kind::single;
  const auto hides = [](const Fault& fault) { return fault.kind != FaultKind::node_crash; };
  if ((is_single && std::ranges::any_of(schedule.faults, hides)) || !random.chance(0.3)) return;
  for (auto count = 1 + random.below(3); count > 0; --count) {
    Joining one{.at = random.between(500ms, 15s), .leaves = {}, .is_misfit = random.chance(0.2)};
    if (one.is_misfit) one.fails_late = random.chance(0.5);
    if (random.chance(0.4)) one.leaves = one.at + random.between(100ms, 20s);
    schedule.joining.push_back(one);
  }
  std::ranges::sort(schedule.joining, {}, &Joining::at);
  if (random.chance(0.7)) schedule.rules.regrow_after = 5s;
  if (random.chance(0.5)) schedule.rules.wanted += random.below(schedule.joining.size() + 1);
  schedule.steps = 140;
}

}  // namespace

const char* name_of(FaultKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

std::string describe(const Fault& fault) {
  return fmt::format("{} at {:.2f} s for {:.2f} s: node {}, other {}, part {:b}, code {}{}", name_of(fault.kind),
                     static_cast<double>(fault.at.count()) / 1e3, static_cast<double>(fault.duration.count()) / 1e3,
                     fault.node, fault.other, fault.part, fault.code, fault.hangs ? ", hangs" : "");
}

Schedule make_schedule(std::uint64_t seed) {
  Random random(seed);
  Schedule schedule;
  schedule.seed = seed;
  const double kind = random.uniform();
  schedule.kind = kind < 0.2 ? Kind::quiet : kind < 0.5 ? Kind::single : Kind::storm;
  draw_nodes(random, schedule);
  schedule.disturbance = draw_disturbance(random, schedule.kind);
  if (schedule.kind == Kind::quiet) add_starvation(random, schedule);
  if (schedule.kind == Kind::single) add_single_fault(random, schedule);
  if (schedule.kind == Kind::storm) add_storm(random, schedule);
  if (schedule.kind != Kind::quiet) schedule.steps = 100;
  schedule.ranks_notice_loss = random.chance(0.6);
  Random others(seed + 0x51AFD7ED558CCD);  // schedules without nodes that join stay as they are
  schedule.rules.own = schedule.nodes;
  schedule.rules.own_wanted = schedule.rules.wanted;
  add_joining(others, schedule);
  for (const Fault& fault : schedule.faults)
    schedule.faults_end = std::max(schedule.faults_end, fault.at + fault.duration);
  for (const Joining& one : schedule.joining)
    schedule.faults_end = std::max(schedule.faults_end, one.leaves.value_or(one.at));
  return schedule;
}

std::string describe(const Schedule& schedule) {
  constexpr std::array kKinds{"quiet", "single", "storm"};
  const auto& [drop, repeat, slow, stale, delay, slow_delay] = schedule.disturbance;
  std::string text = fmt::format(
      "seed {}: {}, {} nodes, {} wanted, at least {}, regrow {}, notices loss {}; drop {:.2f}, repeat {}, slow {}, "
      "stale {}, delay {} ms",
      schedule.seed, kKinds[static_cast<std::size_t>(schedule.kind)], schedule.nodes, schedule.rules.wanted,
      schedule.rules.min_nodes, schedule.rules.regrow_after.has_value(), schedule.ranks_notice_loss, drop, repeat, slow,
      stale, delay.count());
  for (const Fault& fault : schedule.faults) text += "\n  " + describe(fault);
  for (const Joining& one : schedule.joining)
    text += fmt::format("\n  a {} joins at {} ms{}", one.is_misfit ? "misfit" : "node", one.at.count(),
                        one.leaves ? fmt::format(" and leaves at {} ms", one.leaves->count()) : "");
  return text;
}

}  // namespace distdl::agent::simulation
