// SPDX-License-Identifier: Apache-2.0
#include "tests/agent/simulation/training.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <distdl/base/exit_codes.hpp>

namespace distdl::agent::simulation {
namespace {
using namespace std::chrono_literals;
constexpr Milliseconds kStep{300};
constexpr std::int64_t kSaveEvery = 10;
constexpr int kContinue = -1;

int number(ExitCode code) {
  return static_cast<int>(code);
}
}  // namespace

void Training::start(std::size_t node, const Decision& decision) {
  Rank& rank = ranks_[node];
  const auto id = ++last_id_;
  rank = {id, decision.generation, false, false, false, false, rank.spoilt, rank.spoilt_late, rank.freezes};
  const auto [group, is_new] = groups_.try_emplace(decision.generation);
  if (is_new) group->second = {decision, queue_.now(), std::vector<bool>(ranks_.size())};
  if (!std::exchange(group->second.ticks, true)) {
    queue_.after(kStep, [this, generation = decision.generation] { tick(generation); });
  }
  group->second.seen[node] = true;
  queue_.after(random_.between(50ms, 600ms), [this, node, id] {
    if (ranks_[node].id != id) return;
    ranks_[node].is_up = true;
    if (ranks_[node].spoilt != 0) end(node, ranks_[node].spoilt);
  });
}

void Training::end(std::size_t node, int code, std::uint64_t id) {
  Rank& rank = ranks_[node];
  if (rank.id == 0 || (id != 0 && rank.id != id)) return;
  rank.id = 0;
  callbacks_.ended(node, code);
}

bool Training::is_whole(const Group& group) const {
  return std::ranges::all_of(group.decision.members, [&](NodeId node) {
    return is_here(node, group.decision.generation) && ranks_[node.value].is_up;
  });
}

bool Training::one_is_missing(const Group& group) const {
  return std::ranges::any_of(group.decision.members, [&](NodeId node) {
    return group.seen[node.value] && !is_here(node, group.decision.generation);
  });
}

/// Whether a rank is frozen, or two do not reach each other.
bool Training::is_stuck(const Group& group) const {
  const auto& members = group.decision.members;
  return std::ranges::any_of(members, [&](NodeId a) {
    return is_frozen(a.value) ||
           std::ranges::any_of(members, [&](NodeId b) { return !network_.is_up(a.value, b.value); });
  });
}

/// Ranks that do not train yet have nothing to save: a request to stop ends them, also if others never come.
bool Training::leaves_at_start(const Group& group) const {
  return !group.trains && std::ranges::all_of(group.decision.members, [&](NodeId node) {
    return !is_here(node, group.decision.generation) || ranks_[node.value].told_to_stop;
  });
}

void Training::end_all(const Group& group, int code) {
  for (NodeId node : group.decision.members) {
    Rank& rank = ranks_[node.value];
    if (is_here(node, group.decision.generation) && !std::exchange(rank.will_end, true))
      end_unless_frozen(node.value, code, rank.id);
  }
}

/// One that is frozen ends when it is not any more.
void Training::end_unless_frozen(std::size_t node, int code, std::uint64_t id) {
  if (ranks_[node].id != id) return;
  if (!is_frozen(node)) return end(node, code, id);
  queue_.after(500ms, [=, this] { end_unless_frozen(node, code, id); });
}

void Training::tick(Generation generation) {
  Group& group = groups_.at(generation);
  group.ticks = std::ranges::any_of(group.decision.members, [&](NodeId node) { return is_here(node, generation); });
  if (!group.ticks) return;
  const bool is_stuck_now = is_stuck(group), misses_one = one_is_missing(group);
  group.stuck = is_stuck_now || misses_one ? group.stuck + kStep : Duration::zero();
  const bool never_met = !group.trains && queue_.now() - group.began > 20s;
  if (leaves_at_start(group)) {
    end_all(group, number(ExitCode::requeue));
  } else if ((misses_one && notices_loss_) || group.stuck > (notices_loss_ ? 6s : 30s) || never_met) {
    end_all(group, number(ExitCode::peer_lost));
  } else if (is_whole(group) && !is_stuck_now && !misses_one && !group.saves_last) {
    group.trains ? step(group) : begin(group);
  }
  queue_.after(kStep, [this, generation] { tick(generation); });
}

/// All ranks have met. Rank 0 takes OWNER, for which it needs a while and nobody else.
void Training::begin(Group& group) {
  if (std::exchange(group.begins, true)) return;
  const auto first = group.decision.members.front().value;
  queue_.after(random_.between(10ms, random_.chance(0.2) ? 4000ms : 300ms),
               [this, generation = group.decision.generation, id = ranks_[first].id] { take(generation, id); });
}

void Training::take(Generation generation, std::uint64_t id) {
  Group& group = groups_.at(generation);
  const auto first = group.decision.members.front().value;
  if (ranks_[first].id != id) return;
  if (is_frozen(first)) return queue_.after(500ms, [=, this] { take(generation, id); });
  const Generation before = folder_.owner;
  if (!folder_.take(generation)) return end(first, number(ExitCode::superseded));
  if (before > generation) callbacks_.broken(fmt::format("generation {} takes OWNER from {}", generation, before));
  group.trains = true;
  group.step = folder_.committed;
  callbacks_.progressed(first, group.step);
}

void Training::step(Group& group) {
  const auto& members = group.decision.members;
  for (NodeId node : members)
    if (ranks_[node.value].spoilt_late != 0) return end(node.value, ranks_[node.value].spoilt_late);
  group.step = std::min(group.step + 1, steps_);
  callbacks_.progressed(members.front().value, group.step);  // only rank 0 says so
  if (std::ranges::any_of(members, [&](NodeId node) { return ranks_[node.value].told_to_stop; }))
    vote(group, number(ExitCode::requeue));
  else if (group.step == steps_)
    vote(group, number(ExitCode::ok));
  else if (group.step % kSaveEvery == 0)
    vote(group, kContinue);
}

/// All ranks take part in the vote. After it rank 0 needs a while and nobody else.
void Training::vote(Group& group, int code) {
  const Generation generation = group.decision.generation;
  if (const auto newest = folder_.ledger.rbegin()->first; newest > generation)
    callbacks_.broken(fmt::format("all ranks of generation {} train when {} was decided already", generation, newest));
  group.saves_last = code != kContinue;
  const auto first = group.decision.members.front().value;
  queue_.after(
      random_.between(10ms, random_.chance(0.2) ? 4000ms : 300ms),
      [this, generation, step = group.step, id = ranks_[first].id, code] { commit(generation, step, id, code); });
}

void Training::commit(Generation generation, std::int64_t step, std::uint64_t id, int code) {
  const Group& group = groups_.at(generation);
  const auto first = group.decision.members.front().value;
  if (ranks_[first].id != id) return;
  if (is_frozen(first)) {
    queue_.after(500ms, [=, this] { commit(generation, step, id, code); });
    return;
  }
  if (folder_.safeguards.fencing && folder_.owner != generation) return end(first, number(ExitCode::superseded));
  if (folder_.owner > generation)
    callbacks_.broken(fmt::format("generation {} commits when {} is the owner", generation, folder_.owner));
  folder_.committed = std::max(folder_.committed, step);
  if (code != kContinue) end_all(group, code);
}

}  // namespace distdl::agent::simulation
