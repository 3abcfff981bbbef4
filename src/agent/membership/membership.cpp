// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <distdl/agent/membership/membership.hpp>
#include <distdl/agent/membership/pauses.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/restart.hpp>

namespace distdl::agent {
namespace {

constexpr Generation kBeginning{0};
/// Between two statuses: many changes at a time make one status.
constexpr Milliseconds kShortestPeriod{20};

/// Whether two statuses of one node tell the others the same. How far the ranks are is told with the next heartbeat.
bool is_equal_news(const Status& a, const Status& b) {
  return a.decision.generation == b.decision.generation && a.phase == b.phase && a.code == b.code &&
         a.cause == b.cause && a.fault == b.fault && a.regrow == b.regrow && a.stop == b.stop && a.hears == b.hears &&
         a.drain == b.drain && a.leave == b.leave;
}

}  // namespace

Membership::Membership(NodeId self, std::vector<std::string> names, const Rules& rules)
    : self_(self), names_(std::move(names)), rules_(rules), peers_(self, names_.size(), rules_) {
  require<InternalError>(self.value < names_.size(), "node {} of {} nodes", self, names_.size());
  require<InternalError>(rules.min_nodes >= 1 && rules.min_nodes <= rules.wanted && rules.min_nodes <= names_.size(),
                         "at least {} of {} wanted nodes, of {} nodes in all", rules.min_nodes, rules.wanted,
                         names_.size());
  require<InternalError>(rules.heartbeat < rules.suspect && rules.suspect < rules.dead,
                         "heartbeats every {} ms, a node suspect after {} ms and dead after {} ms",
                         rules.heartbeat.count(), rules.suspect.count(), rules.dead.count());
}

void Membership::decided(const Decision& decision) {
  if (!is_valid(decision, kMostNodes)) return unanswered(decision.generation);
  for (const auto* nodes : {&decision.members, &decision.spares})  // some may have joined unseen
    for (NodeId node : *nodes) peers_.grow(node.value + 1);
  if (decision.origin.node) peers_.grow(decision.origin.node->value + 1);
  if (asked_ == decision.generation) asked_.reset();
  from_ledger_ = decision;
  report(decision);
}

void Membership::unanswered(Generation generation) {
  if (asked_ != generation) return;
  asked_.reset();
  next_question_ = now_ + rules_.retry;
}

void Membership::give_up(int code, const std::string& cause) {
  if (finish_) return;
  finish(code, cause, false);
  actions_.emplace_back(*finish_);
}

void Membership::name(NodeId node, const std::string& name) {
  if (names_.size() <= node.value) names_.resize(node.value + 1);
  names_[node.value] = name;
}

std::string Membership::name_of(NodeId node) const {
  const bool is_known = node.value < names_.size() && !names_[node.value].empty();
  return is_known ? names_[node.value] : fmt::format("node {}", node);
}

void Membership::progress(std::int64_t step) {
  Status& own = peers_.own();
  own.progress = std::max(own.progress, step);
  if (started_ != generation()) return;
  own.has_trained = own.has_trained || (own.step >= 0 && step > own.step);
  own.step = std::max(own.step, step);
}

std::vector<Action> Membership::advance(Clock::time_point now) {
  if (finish_) return std::exchange(actions_, {});
  now_ = now;
  peers_.advance(now);
  adopt_newest();
  spread();
  find_fault();
  run_ranks();
  consider_regrow();
  consider_drain();
  decide();
  read_ledger();
  send();
  end_launch();
  consider_leaving();
  if (finish_) actions_.emplace_back(*finish_);
  return std::exchange(actions_, {});
}

void Membership::adopt_newest() {
  const Decision* newest = from_ledger_ ? &*from_ledger_ : &decision();
  for (const Status& status : peers_.all())
    if (status.decision.generation > newest->generation) newest = &status.decision;
  if (newest->generation > generation()) adopt(*newest);
  from_ledger_.reset();
}

/// Others may have told it before the ledger answers.
void Membership::report(const Decision& decision) {
  if (decision.proposer != self_ || decision.generation <= reported_) return;
  reported_ = decision.generation;
  const bool is_first = decision.generation == Generation(kBeginning.value + 1);
  const bool broke_off = decision.end
                             ? !is_planned_end(*decision.end)
                             : !is_first && (proposed_after_fault_ || decision.origin.kind != CauseKind::unknown);
  actions_.emplace_back(Report{decision, broke_off});
}

void Membership::adopt(const Decision& decision) {
  report(decision);
  Status& own = peers_.own();
  own.decision = decision;
  own.fault.clear();
  own.regrow = false;
  own.code = 0;
  own.cause.clear();
  own.origin = {};
  own.step = -1;
  own.has_trained = false;
  if (own.phase == Phase::ended) own.phase = Phase::none;
  adopted_at_ = next_question_ = now_;
  undecided_since_.reset();
  orphan_since_.reset();
  regrow_since_.reset();
  connected_.clear();
  asked_.reset();
}

/// Takes over what any node has reported: a request to stop, one for more nodes or for fewer, and a fault of this
/// generation.
void Membership::spread() {
  Status& own = peers_.own();
  for (const Status& status : peers_.all()) {
    own.stop = own.stop || status.stop;
    if (status.decision.generation != generation()) continue;
    own.regrow = own.regrow || status.regrow || (status.leave && contains(decision().members, status.node));
    if (own.fault.empty()) own.fault = status.fault;
  }
}

/// A spare that does not hear a member says nothing about it: the members may hear each other.
void Membership::find_fault() {
  Status& own = peers_.own();
  if (generation() == kBeginning || !is_member() || !own.fault.empty()) return;
  for (NodeId member : decision().members) {
    if (!is_lost(member)) continue;
    own.fault = fmt::format("{} hears no heartbeat of {}", name_of(self_), name_of(member));
    return;
  }
}

/// Also a node that is heard and does not take part is lost to the others.
bool Membership::is_lost(NodeId member) const {
  const Status& status = peers_.of(member);
  if (has_ended_well(status, generation())) return false;
  const bool is_behind = status.decision.generation < generation() && now_ - adopted_at_ >= rules_.end_limit;
  return !peers_.is_heard(member) || is_behind;
}

void Membership::note_code(int code, const std::string& cause, Origin origin) {
  Status& own = peers_.own();
  if (started_ != generation() || !is_worse(code, own.code)) return;
  own.code = code;
  own.cause = name_of(self_) + ": " + cause;
  origin.node = self_;
  own.origin = origin;
  if (code != kRequeue && own.fault.empty()) own.fault = own.cause;
}

void Membership::ranks_failed(int code, const std::string& cause, Origin origin) {
  if (has_ranks()) note_code(code, cause, origin);
}

void Membership::ranks_ended(int code, const std::string& cause, Origin origin) {
  if (!has_ranks()) return;
  note_code(code, cause, origin);
  peers_.own().phase = started_ == generation() ? Phase::ended : Phase::none;
}

void Membership::run_ranks() {
  Status& own = peers_.own();
  if (own.phase == Phase::running) {
    if (started_ != generation() || !own.fault.empty()) {
      own.phase = Phase::ending;
      actions_.emplace_back(EndRanks{});
    } else if ((own.stop || own.regrow) && !was_told_to_stop_) {
      was_told_to_stop_ = true;
      actions_.emplace_back(StopRanks{});
    }
  } else if (is_member() && generation() != kBeginning && started_ != generation() && !has_ranks()) {
    start_ranks();
  }
}

/// Ranks that would be ended at once are not started.
void Membership::start_ranks() {
  Status& own = peers_.own();
  started_ = generation();
  was_told_to_stop_ = false;
  own.phase = Phase::ended;
  if (!own.fault.empty()) {
    own.code = kPeerLost;
  } else if (own.stop || own.regrow) {
    own.code = kRequeue;
  } else {
    own.phase = Phase::running;
    actions_.emplace_back(StartRanks{decision()});
  }
}

bool Membership::is_undecided() const {
  if (decision().end) return false;
  return generation() == kBeginning || !status().fault.empty() || is_complete(decision(), peers_.all());
}

/// Decides the next generation, if this one is over and it is this node's turn.
void Membership::decide() {
  if (!is_undecided()) return undecided_since_.reset();
  if (!undecided_since_) undecided_since_ = now_;
  if (now_ - *undecided_since_ >= rules_.decide_limit)
    return finish(kPeerLost,
                  fmt::format("no generation could be decided within {} s{}{}",
                              std::chrono::round<std::chrono::seconds>(rules_.decide_limit).count(),
                              status().fault.empty() ? "" : " after: ", status().fault),
                  false);
  const auto before = std::exchange(connected_, nodes_for_ranks());
  const bool awaits = awaits_others();
  if (connected_ != before || awaits) connected_since_ = now_;
  if (asked_ || now_ < next_question_ || awaits) return;
  const Evidence ended = evidence();
  NextDecision decision = next_decision(ended, rules_);
  const auto pause = pause_before_proposal(self_, ended, decision, rules_);
  if (!pause || now_ - connected_since_ < *pause) return;
  asked_ = decision.decision.generation;
  decision.decision.proposer = self_;
  proposed_after_fault_ = !status().fault.empty();
  actions_.emplace_back(Propose{std::move(decision.decision)});
}

/// Whether a node is without ranks, knows this generation, and can be heard.
bool Membership::is_ready(NodeId node) const {
  const Status& status = peers_.of(node);
  return this->status().hears[node.value] && status.decision.generation == generation() &&
         (status.phase == Phase::none || status.phase == Phase::ended);
}

bool Membership::can_run_ranks(NodeId node) const {
  return is_ready(node) && !peers_.of(node).leave;
}

/// Whether it will soon be known if a node can run ranks: a member that ends its ranks, or another node that is
/// connected and does not know this generation yet, or one that has been silent for a while. A node that hears nobody
/// need not be waited for.
bool Membership::is_awaited(NodeId node) const {
  if (!peers_.is_heard(node) || (is_ready(node) && peers_.is_fresh(node))) return false;
  return contains(decision().members, node) || peers_.are_connected(self_, node);
}

bool Membership::awaits_others() const {
  const auto waited = now_ - *undecided_since_;
  if (generation() == kBeginning)
    return !status().stop && connected_.size() < names_.size() && waited < rules_.form_limit;
  if (is_complete(decision(), peers_.all()) && !status().regrow) return false;
  return waited < rules_.end_limit &&
         std::ranges::any_of(peers_.all(), [&](const Status& status) { return is_awaited(status.node); });
}

/// Those that can run ranks now and are connected with each other; members of this generation first.
std::vector<NodeId> Membership::nodes_for_ranks() const {
  std::vector<NodeId> members, others;
  for (const Status& status : peers_.all())
    if (can_run_ranks(status.node))
      (contains(decision().members, status.node) ? members : others).push_back(status.node);
  return peers_.connected(std::move(members), others);
}

Evidence Membership::evidence() const {
  Evidence evidence{decision(), peers_.all(), connected_, status().fault, status().stop, status().regrow};
  if (generation() == kBeginning) evidence.fault = "the launch begins";
  return evidence;
}

/// Nodes without ranks that could be members of the next generation.
std::vector<NodeId> Membership::possible_members() const {
  std::vector<NodeId> others;
  for (const Status& status : peers_.all()) {
    if (contains(decision().wrong, status.node)) continue;
    if (!contains(decision().members, status.node) && can_run_ranks(status.node)) others.push_back(status.node);
  }
  return others;
}

/// Asks for a generation with more nodes, if nodes are missing and others have been there for long enough.
void Membership::consider_regrow() {
  if (!rules_.regrow_after || !can_regrow()) return regrow_since_.reset();
  if (!regrow_since_) regrow_since_ = now_;
  if (now_ - *regrow_since_ >= *rules_.regrow_after) peers_.own().regrow = true;
}

bool Membership::can_regrow() const {
  const Status& own = status();
  const auto& last = decision();
  if (own.phase != Phase::running || !own.fault.empty() || own.stop || own.regrow) return false;
  const auto progress = std::ranges::max(peers_.all(), {}, &Status::progress).progress;
  if (last.members.size() >= rules_.wanted || progress <= last.progress) return false;
  if (*std::ranges::min_element(last.members) != self_) return false;
  const auto connected = peers_.connected(last.members, possible_members());
  const auto unfit = unfit_nodes(last.node_failures, peers_.all(), rules_);
  return next_members(last, connected, unfit, rules_).size() > last.members.size();
}

/// Asks for a generation in which a spare takes the place of a member that may fail, once this one has come further.
void Membership::consider_drain() {
  Status& own = peers_.own();
  const auto& last = decision();
  if (own.phase != Phase::running || !own.fault.empty() || own.stop || own.regrow) return;
  if (*std::ranges::min_element(last.members) != self_) return;
  if (std::ranges::max(peers_.all(), {}, &Status::progress).progress <= last.progress) return;
  const auto drained = [&](NodeId node) { return peers_.of(node).drain; };
  if (std::ranges::none_of(last.members, drained)) return;
  const auto unfit = unfit_nodes(last.node_failures, peers_.all(), rules_);
  const auto next = next_members(last, peers_.connected(last.members, possible_members()), unfit, rules_);
  own.regrow = next.size() >= last.members.size() &&
               std::ranges::count_if(next, drained) < std::ranges::count_if(last.members, drained);
}

/// Who hears no member, or waits long for a new generation, looks whether others have decided meanwhile.
void Membership::read_ledger() {
  if (decision().end) return;
  const bool hears_member =
      std::ranges::any_of(decision().members, [&](NodeId member) { return peers_.is_heard(member); });
  if (is_member() || hears_member)
    orphan_since_.reset();
  else if (!orphan_since_)
    orphan_since_ = now_;
  if (orphan_since_ && now_ - *orphan_since_ >= rules_.orphan_limit)
    return finish(kPeerLost, "no node with ranks is heard", false);
  const bool is_late = undecided_since_ && now_ - *undecided_since_ >= rules_.end_limit;
  if ((!orphan_since_ && !is_late) || asked_ || now_ < next_question_) return;
  asked_ = Generation(generation().value + 1);
  actions_.emplace_back(Read{*asked_});
}

/// After the end was decided: lets the others know, then ends this agent.
void Membership::end_launch() {
  if (!decision().end || has_ranks()) return;
  const bool all_know = std::ranges::all_of(peers_.all(), [&](const Status& status) {
    return !peers_.is_heard(status.node) || status.decision.end.has_value();
  });
  if (all_know || now_ - adopted_at_ >= rules_.linger) finish(*decision().end, decision().cause, true);
}

/// A node that leaves goes when the others are without it, and know that: they must not choose it again. One that has
/// joined and is to run no more ranks leaves, so that its job ends.
void Membership::consider_leaving() {
  const bool is_out = self_.value >= rules_.own && contains(decision().wrong, self_);
  if (is_out) leave();
  if (!status().leave || is_member() || has_ranks()) return left_since_.reset();
  if (!left_since_) left_since_ = now_;
  if (now_ - *left_since_ >= rules_.linger)
    finish(kOk, is_out ? "the run continues without this node" : "this node has left the run", false);
}

void Membership::finish(int code, const std::string& cause, bool decided) {
  if (!finish_) finish_ = Finish{code, cause, decided};
}

void Membership::send() {
  const bool is_due = now_ - sent_at_ >= rules_.heartbeat;
  const bool is_news = now_ - sent_at_ >= kShortestPeriod && !is_equal_news(status(), sent_);
  if (sent_.sequence > 0 && !is_due && !is_news) return;
  ++peers_.own().sequence;
  sent_ = status();
  sent_at_ = now_;
  actions_.emplace_back(Send{});
}

}  // namespace distdl::agent
