// SPDX-License-Identifier: Apache-2.0
// Losses: how they come to light, which of them counts, and who is to blame when a wait takes too long. The messages
// about them are in failure_messages.cpp.
#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include <distdl/base/activity.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/comm/ucx/failure_detector.hpp>

namespace distdl::comm {
namespace {

/// Time in which a message about the cause may arrive after connections have broken because of it.
constexpr Milliseconds kCauseGrace{50};

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

bool contains(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// Whether no message about the cause is awaited any more.
bool is_proven(const RankLoss& loss) {
  return loss.evidence == Evidence::certain || Clock::now() - loss.since > kCauseGrace;
}

}  // namespace

FailureDetector::FailureDetector(Connections& connections, Activities& activities, Idle& idle)
    : connections_(connections), activities_(activities), idle_(idle), control_messages_{{}, Batch(connections)} {}

/// Ranks that are threads of one process end together.
void FailureDetector::watch(Rank rank) {
  const PeerAddress& address = connections_.peer(rank).address;
  const PeerAddress& own = connections_.own();
  if (observed_[rank.value].watched || address.process_space != own.process_space || address.pid == own.pid) return;
  observed_[rank.value].watched = true;
  idle_.watch(rank, address.pid);
}

bool FailureDetector::is_lost(Rank rank) const {
  return std::any_of(losses_.begin(), losses_.end(), [&](const RankLoss& loss) { return loss.rank == rank; });
}

bool FailureDetector::is_certain(Rank rank) const {
  return std::any_of(losses_.begin(), losses_.end(),
                     [&](const RankLoss& loss) { return loss.rank == rank && loss.evidence == Evidence::certain; });
}

RankLoss FailureDetector::mark_lost(Rank rank, Evidence evidence, const std::string& why, ExitCode code) {
  idle_.unwatch(rank);
  return losses_.emplace_back(RankLoss{rank, evidence, why, code});
}

/// A process that stopped on purpose has sent the reason, so control messages and the board are read before it counts
/// as lost. The end of a process without an endpoint here matters only if this rank waits for it.
void FailureDetector::mark_ended() {
  for (Rank rank : idle_.take_ended()) {
    drain_control_messages();
    read_board();
    if (connections_.peer(rank).opened)
      mark_process_lost(rank);
    else
      ended_.push_back(rank);
  }
}

void FailureDetector::mark_process_lost(Rank rank) {
  mark_lost(rank, Evidence::certain, end_of(rank));
}

std::string FailureDetector::end_of(Rank rank) const {
  return fmt::format("the process of {} ended (pid {})", connections_.name(rank), connections_.peer(rank).address.pid);
}

/// Before handshakes, a rank that ends because another one died cannot send the reason. All processes that ended are
/// therefore named.
void FailureDetector::mark_processes_lost(std::span<const Rank> ranks) {
  std::vector<std::string> ends;
  std::vector<Rank> dead;
  for (Rank rank : ranks) {
    if (!is_known_dead(connections_.peer(rank))) continue;
    dead.push_back(rank);
    ends.push_back(end_of(rank));
  }
  if (!dead.empty()) drain_control_messages();
  for (Rank rank : dead) mark_lost(rank, Evidence::certain, fmt::format("{}", fmt::join(ends, ", ")));
}

bool FailureDetector::is_known_dead(const Peer& peer) const {
  const PeerAddress& own = connections_.own();
  return peer.address.process_space == own.process_space && peer.address.pid != own.pid && has_ended(peer.address.pid);
}

/// A rank that leaves after a loss closes its connections. Peers without a finished handshake do not get the reason
/// from it. For its own host this rank finds the ended processes itself.
RankLoss FailureDetector::cause_of(const RankLoss& loss) {
  if (loss.evidence == Evidence::certain || is_known_dead(connections_.peer(loss.rank))) return loss;
  const auto& peers = connections_.peers();
  const auto dead = std::find_if(peers.begin(), peers.end(), [this](const Peer& peer) { return is_known_dead(peer); });
  if (dead == peers.end()) return loss;
  mark_process_lost(dead->rank);
  return losses_.back();
}

/// A process with access to the board may have written anything.
void FailureDetector::read_board() {
  if (!board_.posted_loss) return;
  if (const auto loss = board_.posted_loss();
      loss && (connections_.known(loss->rank) || loss->rank == connections_.rank()) && !is_certain(loss->rank))
    mark_lost(loss->rank, Evidence::certain, loss->why, static_cast<ExitCode>(loss->exit_code));
}

void FailureDetector::check_liveness() {
  read_board();
  for (Rank rank : activities_.awaited_by_any()) {
    watch(rank);
    if (contains(ended_, rank) && !is_lost(rank)) mark_process_lost(rank);
  }
  if (const Activity* activity = activities_.foremost()) {
    const auto& ranks = activities_.awaited_by(*activity);
    const auto awaited = ranks.empty() ? std::nullopt : std::optional(ranks.front());
    const Operation operation = activity->operation();
    if (board_.show_wait) board_.show_wait(awaited, operation);
    if (activities_.is_waiting()) show_wait(operation.name, operation.sequence, operation.bytes, awaited);
  }
}

bool FailureDetector::matters(const RankLoss& loss) const {
  return !is_tolerated(loss) && (!connections_.is_closing() || connections_.awaits_close_of(loss.rank));
}

/// True if the other ranks may continue. A rank that reports a reason of its own ends all: it holds for them, too.
bool FailureDetector::is_tolerated(const RankLoss& loss) const {
  return loss.code == ExitCode::peer_lost && tolerates(loss.rank);
}

std::vector<Rank> FailureDetector::tolerated_losses() const {
  std::set<Rank> ranks;
  for (const RankLoss& loss : losses_)
    if (is_tolerated(loss) && is_proven(loss)) ranks.insert(loss.rank);
  return {ranks.begin(), ranks.end()};
}

/// Fails all operations under way with a lost rank, except those that UCX keeps.
void FailureDetector::close_tolerated() noexcept {
  for (const RankLoss& loss : losses_)
    if (is_tolerated(loss) && is_proven(loss)) connections_.force_close(loss.rank);
}

std::optional<RankLoss> FailureDetector::find_loss() const {
  for (const RankLoss& loss : losses_)
    if (loss.evidence == Evidence::certain && matters(loss)) return loss;
  for (const RankLoss& loss : losses_)
    if (is_proven(loss) && matters(loss)) return loss;
  return std::nullopt;
}

std::vector<Rank> FailureDetector::lost_ranks(Rank cause) const {
  std::set<Rank> ranks{cause};
  for (const RankLoss& loss : losses_)
    if (loss.evidence == Evidence::certain) ranks.insert(loss.rank);
  return {ranks.begin(), ranks.end()};
}

RankLoss FailureDetector::settle(const RankLoss& loss) {
  mark_ended();  // others may have died with it
  RankLoss cause = cause_of(loss);
  if (cause.rank != connections_.rank()) {
    connections_.force_close(cause.rank);  // so that tell_all() need not wait for it
    tell_all(cause.rank, cause.why, cause.code);
  }
  return cause;
}

/// Asks ranks and returns those that gave no answer. Returns early when the activity is done after all. Opens endpoints
/// that are missing: a rank that waits in shared memory may never have sent a message to the awaited one.
std::vector<Rank> FailureDetector::ask(const std::vector<Rank>& suspects, const Activity& activity,
                                       const Deadline& deadline, const std::function<void()>& progress) {
  for (Rank rank : suspects) {
    Observed& observed = observed_[rank.value];
    observed.answer.reset();
    if (const auto wait = board_.shown_wait ? board_.shown_wait(rank) : std::nullopt) observed.looks = wait->looks;
    if (rank != connections_.rank() && !connections_.peer(rank).opened) connections_.open(rank);
  }
  std::vector<Rank> unasked = suspects, silent = suspects;
  while (!silent.empty() && activities_.contains(activity) && !find_loss() && !deadline.expired()) {
    std::erase_if(unasked, [this](Rank rank) {
      if (!connections_.peer(rank).proved()) return false;
      connections_.send_control(rank, encode({ControlMessage::Kind::ask, connections_.rank(), rank, ""}));
      return true;
    });
    progress();
    std::erase_if(silent, [this](Rank rank) {
      read_answer_on_board(rank);
      return observed_[rank.value].answer.has_value();
    });
  }
  return silent;
}

std::string FailureDetector::silence_of(const std::vector<Rank>& silent) const {
  std::string names;
  for (Rank rank : silent) names += (names.empty() ? "" : ", ") + connections_.name(rank);
  const Peer& first = connections_.peer(silent.front());
  if (first.wrong_proofs > 0 && !first.proved())
    return fmt::format(
        "{}, which could not prove that it belongs to this job ({} wrong proofs): it belongs to another "
        "launch, or pretends to be a rank",
        names, first.wrong_proofs);
  return fmt::format("{}, which does not answer{}: it hangs, is stopped or too busy, or its node or network is down",
                     names, first.proved() ? "" : " and has not yet proved that it belongs to this job");
}

std::optional<RankLoss> FailureDetector::find_culprit(const Activity& activity, Clock::duration waited,
                                                      Clock::duration timeout, const std::function<void()>& progress) {
  const auto patience = std::clamp<Clock::duration>(timeout / 4, Milliseconds(50), Milliseconds(500));
  std::vector<Rank> suspects = activities_.awaited_by(activity);
  std::set<Rank> asked{connections_.rank()};
  std::string chain = fmt::format("waited {:.1f} s for ", seconds(waited));
  const auto blame = [&](Rank rank, const std::string& why) { return mark_lost(rank, Evidence::certain, chain + why); };
  if (suspects.empty()) return blame(connections_.rank(), activity.own_delay());
  while (true) {
    const auto silent = ask(suspects, activity, Deadline::after(patience), progress);
    if (!activities_.contains(activity)) return std::nullopt;
    if (auto loss = find_loss()) return loss;
    if (!silent.empty()) return blame(silent.front(), silence_of(silent));
    const Rank suspect = suspects.front();
    const ControlMessage answer = *observed_[suspect.value].answer;
    chain += fmt::format("{}, which waits in {} for ", connections_.name(suspect), answer.text);
    if (!asked.insert(answer.subject).second)
      return blame(suspect, fmt::format("{}: the ranks do not call the same operations in the same order",
                                        connections_.name(answer.subject)));
    suspects = {answer.subject};
  }
}

}  // namespace distdl::comm
