// SPDX-License-Identifier: Apache-2.0
// Losses: how they come to light, which of them counts, and who is to blame when a wait takes too long.
#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/peer_lost.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {
namespace {

/// Time in which a message about the cause may arrive after connections have broken because of it.
constexpr Milliseconds kCauseGrace{50};
/// Time after which the end of a process is seen.
constexpr Milliseconds kMoment{200};

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

bool contains(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

bool Fabric::is_lost(Rank rank) const {
  return std::any_of(losses_.begin(), losses_.end(), [&](const Loss& loss) { return loss.rank == rank; });
}

bool Fabric::is_certain(Rank rank) const {
  return std::any_of(losses_.begin(), losses_.end(),
                     [&](const Loss& loss) { return loss.rank == rank && loss.evidence == Evidence::certain; });
}

Fabric::Loss Fabric::mark_lost(Rank rank, Evidence evidence, const std::string& why, ExitCode code) {
  idle_.unwatch(rank);
  return losses_.emplace_back(Loss{rank, evidence, why, code});
}

/// A process that stopped on purpose has sent the reason, so control messages are drained before it counts as lost. The
/// end of a process without an endpoint here matters only if this rank waits for it.
void Fabric::mark_ended() {
  for (Rank rank : idle_.take_ended()) {
    drain_control_messages();
    if (peers_[rank.value].opened)
      mark_process_lost(rank);
    else
      ended_.push_back(rank);
  }
}

void Fabric::drain_control_messages() {
  while (ucp_worker_progress(worker_.get()) > 0) read_control_messages();
  read_control_messages();
}

void Fabric::mark_process_lost(Rank rank) {
  mark_lost(rank, Evidence::certain, end_of(rank));
}

std::string Fabric::end_of(Rank rank) const {
  return fmt::format("the process of {} ended (pid {})", name(rank), peer_address(rank).pid);
}

/// Before handshakes, a rank that ends because another one died cannot send the reason. All processes that ended are
/// therefore named.
void Fabric::mark_processes_lost(std::span<const Rank> ranks) {
  std::vector<std::string> ends;
  std::vector<Rank> dead;
  for (Rank rank : ranks) {
    if (!is_known_dead(peers_[rank.value])) continue;
    dead.push_back(rank);
    ends.push_back(end_of(rank));
  }
  if (!dead.empty()) drain_control_messages();
  for (Rank rank : dead) mark_lost(rank, Evidence::certain, fmt::format("{}", fmt::join(ends, ", ")));
}

bool Fabric::is_known_dead(const Peer& peer) const {
  return peer.address.process_space == own_address_.process_space && peer.address.pid != own_address_.pid &&
         has_ended(peer.address.pid);
}

/// A rank that leaves after a loss breaks the connections to those who had no time yet to prove themselves, and whom it
/// could not tell. On its own host this rank sees who has died.
Fabric::Loss Fabric::cause_of(const Loss& loss) {
  if (loss.evidence == Evidence::certain || is_known_dead(peers_[loss.rank.value])) return loss;
  const auto dead =
      std::find_if(peers_.begin(), peers_.end(), [this](const Peer& peer) { return is_known_dead(peer); });
  if (dead == peers_.end()) return loss;
  mark_process_lost(dead->rank);
  return losses_.back();
}

/// Every millisecond of a wait: what no message tells.
void Fabric::check_liveness() {
  if (board_.posted_loss)
    // Whoever else writes to the board may have written anything.
    if (const auto loss = board_.posted_loss();
        loss && (known(loss->rank) || loss->rank == self_) && !is_certain(loss->rank))
      mark_lost(loss->rank, Evidence::certain, loss->why, static_cast<ExitCode>(loss->exit_code));
  for (const auto& one : activities_) {
    awaited_now_.clear();
    one.activity->add_awaited(awaited_now_);
    for (Rank rank : awaited_now_) {
      watch(peers_[rank.value]);
      if (contains(ended_, rank) && !is_lost(rank)) mark_process_lost(rank);
    }
  }
  if (const Activity* activity = foremost(); activity && board_.show_wait) {
    const auto& ranks = awaited(*activity);
    board_.show_wait(ranks.empty() ? std::nullopt : std::optional(ranks.front()), activity->operation());
  }
}

void Fabric::look_for_loss(std::span<const Rank> ranks, const Operation& operation) {
  const Deadline deadline = Deadline::after(kMoment);
  do {
    progress();
    mark_processes_lost(ranks);
    if (const auto loss = find_loss()) fail(operation, *loss);
    idle_.pause();
  } while (!deadline.expired());
}

bool Fabric::matters(const Loss& loss) const {
  return !closing_down_ || closes_.receives_from(loss.rank);
}

std::optional<Fabric::Loss> Fabric::find_loss() const {
  for (const Loss& loss : losses_)
    if (loss.evidence == Evidence::certain && matters(loss)) return loss;
  for (const Loss& loss : losses_)
    if (Clock::now() - loss.since > kCauseGrace && matters(loss)) return loss;
  return std::nullopt;
}

/// Ascending. Those whose connections broke may only have given up because of the cause.
std::vector<Rank> Fabric::lost_ranks(Rank cause) const {
  std::set<Rank> ranks{cause};
  for (const Loss& loss : losses_)
    if (loss.evidence == Evidence::certain) ranks.insert(loss.rank);
  return {ranks.begin(), ranks.end()};
}

void Fabric::fail(const Operation& operation, const Loss& loss) {
  mark_ended();  // others may have died with it
  const Loss cause = cause_of(loss);
  revoked_ = cause;
  if (cause.rank != self_) {
    force_close(peers_[cause.rank.value]);  // so that tell_all() need not wait for it
    tell_all(cause.rank, cause.why, cause.code);
  }
  cancel_activities();
  throw_if_unusable(operation);
  std::abort();  // not reached
}

void Fabric::throw_if_unusable(const Operation& operation) const {
  if (revoked_)
    throw PeerLost(revoked_->rank, peer_address(revoked_->rank).host,
                   fmt::format("{}: {}", to_string(operation), revoked_->why), revoked_->code,
                   lost_ranks(revoked_->rank));
  if (error_) std::rethrow_exception(error_);
  require<CommError>(worker_ && !closed_, "{}: the communicator is closed", to_string(operation));
}

/// Whom an activity waits for; where it waits for another activity, whom that waits for.
const std::vector<Rank>& Fabric::awaited(const Activity& activity) {
  awaited_now_.clear();
  activity.add_awaited(awaited_now_);
  for (const auto& one : activities_)
    if (awaited_now_.empty()) one.activity->add_awaited(awaited_now_);
  return awaited_now_;
}

/// Asks ranks and returns those that gave no answer. Returns early when the activity is done after all. Opens endpoints
/// that are missing: a rank that waits in shared memory may never have sent a message to the awaited one.
std::vector<Rank> Fabric::ask(const std::vector<Rank>& suspects, const Activity& activity, const Deadline& deadline) {
  for (Rank rank : suspects) {
    Peer& peer = peers_[rank.value];
    peer.answer.reset();
    if (const auto wait = board_.shown_wait ? board_.shown_wait(rank) : std::nullopt) peer.looks = wait->looks;
    if (rank != self_ && !peer.opened) open(peer);
  }
  std::vector<Rank> unasked = suspects, silent = suspects;
  while (!silent.empty() && under_way(activity) && !find_loss() && !deadline.expired()) {
    std::erase_if(unasked, [this](Rank rank) {
      if (!proved(rank)) return false;
      tell(peers_[rank.value], {ControlMessage::Kind::ask, self_, rank, ""});
      return true;
    });
    if (progress())
      idle_.restart();
    else
      idle_.pause(polls());
    std::erase_if(silent, [this](Rank rank) {
      read_answer_on_board(peers_[rank.value]);
      return peers_[rank.value].answer.has_value();
    });
  }
  return silent;
}

std::string Fabric::silence_of(const std::vector<Rank>& silent) const {
  std::string names;
  for (Rank rank : silent) names += (names.empty() ? "" : ", ") + name(rank);
  const Peer& first = peers_[silent.front().value];
  if (first.wrong_proofs > 0 && !proved(first.rank))
    return fmt::format(
        "{}, which could not prove that it belongs to this job ({} wrong proofs): it is of another "
        "launch, or not what it says",
        names, first.wrong_proofs);
  return fmt::format("{}, which does not answer{}: it hangs, is stopped, is too busy, or its node or network is down",
                     names, proved(first.rank) ? "" : " and has not yet proved that it belongs to this job");
}

/// The time is over. The rank waited for may itself wait for another: follow the chain to the one that does not answer.
void Fabric::find_culprit(const Activity& activity, Clock::duration waited, Clock::duration timeout) {
  const Operation operation = activity.operation();
  const auto patience = std::clamp<Clock::duration>(timeout / 4, Milliseconds(50), Milliseconds(500));
  std::vector<Rank> suspects = awaited(activity);
  std::set<Rank> asked{self_};
  std::string chain = fmt::format("waited {:.1f} s for ", seconds(waited));
  const auto blame = [&](Rank rank, const std::string& why) {
    fail(operation, mark_lost(rank, Evidence::certain, chain + why));
  };
  if (suspects.empty()) blame(self_, activity.own_delay());
  while (true) {
    const auto silent = ask(suspects, activity, Deadline::after(patience));
    if (!under_way(activity)) return;
    if (const auto loss = find_loss()) fail(operation, *loss);
    if (!silent.empty()) blame(silent.front(), silence_of(silent));
    const Rank suspect = suspects.front();
    const ControlMessage answer = *peers_[suspect.value].answer;
    chain += fmt::format("{}, which in {} waits for ", name(suspect), answer.text);
    if (!asked.insert(answer.subject).second)
      blame(suspect,
            fmt::format("{}: the ranks do not call the same operations in the same order", name(answer.subject)));
    suspects = {answer.subject};
  }
}

}  // namespace distdl::comm
