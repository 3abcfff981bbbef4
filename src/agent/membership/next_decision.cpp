// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <distdl/agent/membership/next_decision.hpp>
#include <distdl/base/restart.hpp>

namespace distdl::agent {
namespace {
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
      has_trained_ = has_trained_ || status.has_trained;
      if (is_cause(status.code)) failed_.push_back(node);
      was_taken_away_ = was_taken_away_ || status.code == kStopped || status.code == kSuperseded;
      if (status.code == kCorruption) accused_.push_back(node);
      if (status.origin.kind == CauseKind::crashed && contains(evidence.last.newcomers, node)) crashed_.push_back(node);
    }
    for (const Status& status : evidence.statuses) progress_ = std::max(progress_, status.progress);
  }

  int code() const { return code_; }
  /// Exit code of a launch that ends although the run is not finished.
  int failure_code() const { return is_worse(code_, kRequeue) ? code_ : kPeerLost; }
  std::string cause() const { return has_cause() ? cause_ : evidence_.fault; }
  Origin origin() const {
    if (!has_cause()) return origin_of_loss();
    Origin origin = origin_;
    // Error config after a step is no error of the job file, with which the ranks have trained before.
    if (code_ == kConfig && step_ > 0 && misfits().empty()) origin.kind = CauseKind::diverged;
    return origin;
  }
  /// Step after which a crash came that may come there again; -1: none did.
  std::int64_t crashed_after() const {
    return has_cause() && is_cause(code_) && may_repeat_itself(origin_) ? step_ : -1;
  }
  std::int64_t progress() const { return std::max(progress_, evidence_.last.progress); }
  bool made_progress() const { return progress() > evidence_.last.progress; }
  /// Whether its ranks have made a step.
  bool has_trained() const { return has_trained_; }
  /// Members with a cause of their own.
  const std::vector<NodeId>& failed() const { return failed_; }
  /// Members in which an audit found wrong bits. Where it could not tell which node is wrong, it accused all: then
  /// none.
  std::vector<NodeId> wrong() const {
    const bool is_told = accused_.size() == 1 || 2 * accused_.size() < evidence_.last.members.size();
    return is_told ? accused_ : std::vector<NodeId>();
  }
  /// Members that have joined and do not fit: all of them, if ranks ended in a way that a relaunch cannot help before
  /// they made a step; else those whose ranks crashed before that.
  std::vector<NodeId> misfits() const {
    if (has_trained_ || was_taken_away_) return {};
    return blames_newcomers(code_, restart_evidence()) ? evidence_.last.newcomers : crashed_;
  }
  /// Returns what follows from the end of its ranks; give_up ends the launch.
  RestartDecision restart() const { return decide_restart(code_, restart_evidence()); }

 private:
  RestartEvidence restart_evidence() const {
    return {.was_taken_away = was_taken_away_, .has_newcomers = !has_trained_ && !evidence_.last.newcomers.empty()};
  }
  bool has_cause() const { return !cause_.empty() && is_worse(code_, kPeerLost); }
  bool is_heard(NodeId node) const {
    return std::ranges::any_of(evidence_.connected, [&](NodeId other) {
      const auto& hears = evidence_.statuses[other.value].hears;
      return node.value < hears.size() && hears[node.value];
    });
  }
  /// Origin of a loss: a member that cannot go on; else ranks that lost each other while their agents did not.
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
  std::vector<NodeId> crashed_;  ///< newcomers
  bool has_trained_ = false;
  bool was_taken_away_ = false;  ///< stopped by a user, or another start has the run folder
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

bool is_own(NodeId node, const Rules& rules) {
  return node.value < rules.own;
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
  const auto misfits = ending.misfits();
  for (const auto& nodes : {ending.wrong(), misfits})
    for (NodeId node : nodes)
      if (!contains(next.wrong, node)) next.wrong.push_back(node);
  if (!misfits.empty()) next.cause = fmt::format("no ranks can begin on nodes that joined: {}", next.cause);
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
  if (ending.restart() == RestartDecision::give_up) return ended(next, ending.code(), ending.cause());
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

/// The end of the launch as it has too few nodes, `usable`. Nodes that have left do not come back.
NextDecision end_for_lack_of_nodes(const Evidence& evidence, const Ending& ending, const Rules& rules, Decision next,
                                   const std::vector<NodeId>& usable) {
  const bool has_own = std::ranges::any_of(usable, [&](NodeId node) { return is_own(node, rules); });
  const auto what = has_own ? fmt::format("{} of at least {} nodes are left", usable.size(), rules.min_nodes)
                            : "no node of the run's own job is left";
  const auto cause = fmt::format("{}; the last loss: {}", what, next.cause);
  const bool may_come_back = std::ranges::any_of(evidence.statuses, [&](const Status& status) {
    return !status.leave && !contains(evidence.connected, status.node);
  });
  const int code = !ending.misfits().empty() ? kPeerLost : ending.failure_code();
  return {ended(std::move(next), evidence.fault.empty() ? kRequeue : code, cause), may_come_back};
}

/// Members that have joined and with which no step was made yet.
std::vector<NodeId> newcomers_of(const Decision& next, const Decision& last, bool has_trained, const Rules& rules) {
  std::vector<NodeId> newcomers;
  for (NodeId node : next.members) {
    const bool is_new = !contains(last.members, node) || (contains(last.newcomers, node) && !has_trained);
    if (is_new && !is_own(node, rules)) newcomers.push_back(node);
  }
  return newcomers;
}

/// Nodes without ranks that can take part, in the order in which they are taken.
class Spares {
 public:
  Spares(const Decision& last, const std::vector<NodeId>& connected, std::vector<NodeId> nodes, const Rules& rules)
      : rules_(rules), nodes_(std::move(nodes)) {
    for (NodeId node : last.members) own_ += is_own(node, rules) && contains(connected, node) ? 1 : 0;
  }
  /// Takes the next spare, if there is any. `instead_of_own`: it replaces a node of the launch itself that is here.
  std::optional<NodeId> take(bool instead_of_own = false) {
    const std::size_t others = own_ - (instead_of_own ? 1 : 0);
    const auto first =
        std::ranges::find_if(nodes_, [&](NodeId node) { return !is_own(node, rules_) || others < rules_.own_wanted; });
    if (first == nodes_.end()) return std::nullopt;
    const NodeId node = *first;
    nodes_.erase(first);
    own_ = others + (is_own(node, rules_) ? 1 : 0);
    return node;
  }

 private:
  const Rules& rules_;
  std::vector<NodeId> nodes_;
  std::size_t own_ = 0;  ///< number of the launch's own nodes that will be members
};

/// Nodes that have joined do not go on alone: the launch ends with its job, which may begin another one.
void add_own(std::vector<NodeId>& members, const std::vector<NodeId>& connected, const Rules& rules) {
  const auto belongs = [&](NodeId node) { return is_own(node, rules); };
  if (std::ranges::any_of(members, belongs)) return;
  const auto own = std::ranges::find_if(connected, belongs);
  if (own == connected.end()) return members.clear();
  if (members.size() < rules.wanted)
    members.push_back(*own);
  else
    members.back() = *own;
}

}  // namespace

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
  std::vector<NodeId> others, bad, members;
  for (NodeId node : connected)
    if (!contains(last.members, node)) (is_bad(node) ? bad : others).push_back(node);
  Spares spares(last, connected, std::move(others), rules);
  for (NodeId node : last.members) {
    const bool is_here = contains(connected, node);
    if (is_here && !is_bad(node))
      members.push_back(node);  // NOLINT(bugprone-branch-clone): the order of the rules
    else if (const auto spare = spares.take(is_here && is_own(node, rules)))
      members.push_back(*spare);
    else if (is_here)
      members.push_back(node);
  }
  while (members.size() < rules.wanted) {
    const auto spare = spares.take();
    if (!spare) break;
    members.push_back(*spare);
  }
  for (auto node = bad.begin(); members.size() < rules.min_nodes && node != bad.end(); ++node) members.push_back(*node);
  const auto most = last.generation == Generation(0) ? std::min(rules.wanted, rules.own_wanted) : rules.wanted;
  if (members.size() > most) members.resize(most);
  add_own(members, connected, rules);
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
  if (next.members.empty()) return end_for_lack_of_nodes(evidence, ending, rules, next, usable);
  next.newcomers = newcomers_of(next, evidence.last, ending.has_trained(), rules);
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
