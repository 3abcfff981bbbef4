// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <distdl/agent/next_decision.hpp>

namespace distdl::agent {
namespace {

/// Greater means worse.
std::tuple<int, int> severity(int code) {
  switch (restart_decision(code)) {
    case RestartDecision::finished:
      return {0, code};
    case RestartDecision::resume_later:
      return {1, code};
    case RestartDecision::relaunch:
      return {code == kPeerLost ? 2 : code == kCorruption ? 4 : 3, code};
    default:
      return {5, code};
  }
}

/// A crash or an error of this node itself.
bool is_cause(int code) {
  return restart_decision(code) == RestartDecision::relaunch && code != kPeerLost;
}

/// A crash that may come again at the same step. What is killed or frozen from outside says nothing about the step.
bool may_repeat_itself(const Origin& origin) {
  return origin.kind == CauseKind::out_of_memory || origin.kind == CauseKind::failed ||
         origin.kind == CauseKind::crashed;
}

/// How the last generation ended.
class Ending {
 public:
  explicit Ending(const Evidence& evidence) : evidence_(evidence) {
    for (NodeId node : evidence.last.members) {
      const Status& status = evidence.statuses[node.value];
      if (status.decision.generation != evidence.last.generation) continue;
      if (is_worse(status.code, code_)) {
        code_ = status.code;
        cause_ = status.cause;
        origin_ = status.origin;
      }
      step_ = std::max(step_, status.step);
      if (is_cause(status.code)) failed_.push_back(node);
      if (status.code == kCorruption) accused_.push_back(node);
    }
    for (const Status& status : evidence.statuses) progress_ = std::max(progress_, status.progress);
  }

  int code() const { return code_; }
  /// For a launch that ends although the run is not finished.
  int failure_code() const { return is_worse(code_, kRequeue) ? code_ : kPeerLost; }
  std::string cause() const { return has_cause() ? cause_ : evidence_.fault; }
  Origin origin() const {
    if (!has_cause()) return origin_of_loss();
    Origin origin = origin_;
    if (code_ == kConfig && step_ > 0) origin.kind = CauseKind::diverged;  // the same job file was good enough before
    return origin;
  }
  /// After which a crash came that may come there again; -1: none did.
  std::int64_t crashed_after() const {
    return has_cause() && is_cause(code_) && may_repeat_itself(origin_) ? step_ : -1;
  }
  std::int64_t progress() const { return std::max(progress_, evidence_.last.progress); }
  bool made_progress() const { return progress() > evidence_.last.progress; }
  /// Members with a cause of their own.
  const std::vector<NodeId>& failed() const { return failed_; }
  /// Members in which an audit found wrong bits. Where it could not tell which node is wrong, it named two or all: then
  /// none.
  std::vector<NodeId> wrong() const {
    const bool is_told = accused_.size() == 1 || 2 * accused_.size() < evidence_.last.members.size();
    return is_told ? accused_ : std::vector<NodeId>();
  }

 private:
  bool has_cause() const { return !cause_.empty() && is_worse(code_, kPeerLost); }
  bool is_heard(NodeId node) const {
    return std::ranges::any_of(evidence_.connected, [&](NodeId other) {
      const auto& hears = evidence_.statuses[other.value].hears;
      return node.value < hears.size() && hears[node.value];
    });
  }
  /// Of a member that cannot go on; else of ranks that lost each other while their agents did not.
  Origin origin_of_loss() const {
    for (NodeId node : evidence_.last.members)
      if (!contains(evidence_.connected, node))
        return {is_heard(node) ? CauseKind::link_lost : CauseKind::node_lost, node, std::nullopt};
    return {code_ == kPeerLost ? CauseKind::link_lost : CauseKind::unknown, origin_.node, origin_.rank};
  }

  const Evidence& evidence_;
  int code_ = kOk;
  std::string cause_;
  Origin origin_;
  std::int64_t progress_ = -1, step_ = -1;
  std::vector<NodeId> failed_, accused_;
};

void count_failures(Decision& next, const Ending& ending, std::uint32_t least) {
  for (NodeId node : ending.failed()) {
    const auto known = std::ranges::find(next.node_failures, node, &NodeFailures::node);
    if (known == next.node_failures.end())
      next.node_failures.push_back({node, least});
    else
      known->count = std::max(known->count + 1, least);
  }
}

/// Whether the generation before has crashed there too: the step is the cause, or the node.
bool is_poison(const Decision& last, const Ending& ending) {
  return ending.crashed_after() >= 0 && ending.crashed_after() == last.crashed_after;
}

std::vector<NodeId> without(std::vector<NodeId> nodes, const std::vector<NodeId>& others) {
  std::erase_if(nodes, [&](NodeId node) { return contains(others, node); });
  return nodes;
}

/// Generation, cause and counters of the next decision.
Decision begin_decision(const Evidence& evidence, const Ending& ending, const Rules& rules) {
  const Decision& last = evidence.last;
  Decision next;
  next.generation = Generation(last.generation.value + 1);
  const bool grows = evidence.regrow && evidence.fault.empty();
  next.cause = grows ? "more nodes can take part" : ending.cause();
  next.progress = ending.progress();
  if (last.generation != Generation(0) && !grows) next.origin = ending.origin();
  next.crashed_after = ending.crashed_after();
  next.wrong = last.wrong;
  for (NodeId node : ending.wrong())
    if (!contains(next.wrong, node)) next.wrong.push_back(node);
  if (ending.made_progress() || last.generation == Generation(0)) return next;
  next.failures = last.failures;
  next.losses = last.losses;
  next.node_failures = last.node_failures;
  if (evidence.fault.empty()) return next;
  const auto usable = without(evidence.connected, next.wrong);
  const bool lost = std::ranges::any_of(last.members, [&](NodeId node) { return !contains(usable, node); });
  ++(lost ? next.losses : next.failures);
  if (is_poison(last, ending)) {
    next.origin.kind = CauseKind::poison_step;
    next.cause = fmt::format("ranks crashed twice after step {}: {}", ending.crashed_after(), next.cause);
  }
  count_failures(next, ending, is_poison(last, ending) ? rules.node_tries : 1);
  return next;
}

Decision ended(Decision next, int code, const std::string& cause) {
  next.end = code;
  next.cause = cause;
  next.members.clear();
  return next;
}

/// The end of the launch, if how the last generation ended says so.
std::optional<Decision> end_of_launch(const Evidence& evidence, const Ending& ending, const Rules& rules,
                                      const Decision& next) {
  const bool complete = is_complete(evidence.last, evidence.statuses);
  if (restart_decision(ending.code()) == RestartDecision::give_up) return ended(next, ending.code(), ending.cause());
  if (complete && ending.code() == kOk) return ended(next, kOk, "finished");
  if (evidence.stop || (complete && !evidence.regrow)) return ended(next, kRequeue, "stopped");
  if (next.failures >= rules.tries)
    return ended(next, ending.failure_code(),
                 fmt::format("{} generations in a row made no progress; the last one: {}", next.failures, next.cause));
  if (next.losses >= rules.losses)
    return ended(next, ending.failure_code(),
                 fmt::format("{} generations in a row lost a node before they made progress; the last one: {}",
                             next.losses, next.cause));
  return std::nullopt;
}

}  // namespace

bool is_worse(int code, int other) {
  return severity(code) > severity(other);
}

bool has_ended_well(const Status& status, Generation generation) {
  return status.decision.generation == generation && status.phase == Phase::ended &&
         (status.code == kOk || status.code == kRequeue);
}

bool is_complete(const Decision& decision, const std::vector<Status>& statuses) {
  return decision.generation != Generation(0) && std::ranges::all_of(decision.members, [&](NodeId node) {
           return has_ended_well(statuses[node.value], decision.generation);
         });
}

std::vector<NodeId> next_members(const Decision& last, const std::vector<NodeId>& connected,
                                 const std::vector<NodeFailures>& failures, const Rules& rules) {
  const auto is_bad = [&](NodeId node) {
    return std::ranges::any_of(
        failures, [&](const NodeFailures& one) { return one.node == node && one.count >= rules.node_tries; });
  };
  std::vector<NodeId> spares, bad, members;
  for (NodeId node : connected)
    if (!contains(last.members, node)) (is_bad(node) ? bad : spares).push_back(node);
  auto spare = spares.begin();
  for (NodeId node : last.members) {
    const bool is_here = contains(connected, node);
    // NOLINTNEXTLINE(bugprone-branch-clone): the order of the rules
    if (is_here && !is_bad(node))
      members.push_back(node);
    else if (spare != spares.end())
      members.push_back(*spare++);
    else if (is_here)
      members.push_back(node);
  }
  for (; members.size() < rules.wanted && spare != spares.end(); ++spare) members.push_back(*spare);
  for (auto node = bad.begin(); members.size() < rules.min_nodes && node != bad.end(); ++node) members.push_back(*node);
  if (members.size() > rules.wanted) members.resize(rules.wanted);
  if (members.size() < rules.min_nodes) members.clear();
  return members;
}

std::vector<NodeFailures> unfit_nodes(std::vector<NodeFailures> failures, const std::vector<Status>& statuses,
                                      const Rules& rules) {
  for (const Status& status : statuses)
    if (status.drain) failures.push_back({status.node, rules.node_tries});
  return failures;
}

NextDecision next_decision(const Evidence& evidence, const Rules& rules) {
  const Ending ending(evidence);
  Decision next = begin_decision(evidence, ending, rules);
  if (auto end = end_of_launch(evidence, ending, rules, next)) return {*end};
  const auto usable = without(evidence.connected, next.wrong);
  next.members = next_members(evidence.last, usable, unfit_nodes(next.node_failures, evidence.statuses, rules), rules);
  if (next.members.empty()) {
    const auto cause =
        fmt::format("{} of at least {} nodes are left; the last loss: {}", usable.size(), rules.min_nodes, next.cause);
    const bool may_come_back = evidence.connected.size() < evidence.statuses.size();
    return {ended(next, evidence.fault.empty() ? kRequeue : ending.failure_code(), cause), may_come_back};
  }
  // Nothing would be new in a third try. "distdl run" begins the next launch with an older checkpoint.
  if (next.origin.kind == CauseKind::poison_step && next.members == evidence.last.members)
    return {ended(next, ending.failure_code(), next.cause)};
  for (NodeId node : usable)
    if (!contains(next.members, node)) next.spares.push_back(node);
  const auto leaves = [&](NodeId node) { return evidence.statuses[node.value].leave; };
  if (evidence.regrow && evidence.fault.empty() && std::ranges::any_of(evidence.last.members, leaves))
    next.cause = "a node leaves the run";
  const bool is_drained = std::ranges::any_of(evidence.last.members, [&](NodeId node) {
    return evidence.statuses[node.value].drain && !contains(next.members, node);
  });
  if (is_drained && evidence.regrow && evidence.fault.empty())
    next.cause = "a spare takes the place of a node that may fail";
  return {next};
}

}  // namespace distdl::agent
