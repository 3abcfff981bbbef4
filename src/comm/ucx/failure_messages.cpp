// SPDX-License-Identifier: Apache-2.0
// Control messages: ranks report lost ranks and the ranks for which they wait.
#include <algorithm>
#include <thread>
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/comm/ucx/failure_detector.hpp>

namespace distdl::comm {
namespace {
constexpr Milliseconds kFarewell{300};
/// kBarrier: TCP repeats a lost packet that opens a connection after a second.
constexpr Milliseconds kHandshake{100}, kBarrier{1500};
}  // namespace

void FailureDetector::listen() {
  observed_.resize(connections_.peers().size());
  connections_.listen(control_messages_, Channel::control, kAnySource, kLongestControlMessage + kSealBytes);
}

void FailureDetector::poll() {
  read_control_messages();
  mark_ended();
  close_tolerated();
}

void FailureDetector::drain_control_messages() {
  while (connections_.progress()) read_control_messages();
  read_control_messages();
}

/// A control message can end the whole job: only those that a proved peer has sealed count.
void FailureDetector::read_control_messages() {
  while (const auto bytes = Connections::take(control_messages_)) {
    connections_.listen(control_messages_, Channel::control, kAnySource, kLongestControlMessage + kSealBytes);
    const auto control_message = open_control_message(*bytes);
    if (control_message)
      handle(*control_message);
    else if (++refused_messages_ <= 10)
      log(Severity::warning, "refused a control message of {} bytes that no authenticated peer has sealed",
          bytes->size());
  }
}

std::optional<ControlMessage> FailureDetector::open_control_message(std::string_view sealed) const {
  if (sealed.size() < kSealBytes) return std::nullopt;
  auto control_message = decode_control_message(sealed.substr(0, sealed.size() - kSealBytes));
  if (!control_message || control_message->subject.value < 0 || control_message->subject.value >= connections_.size())
    return std::nullopt;
  const Peer* peer = connections_.known(control_message->sender);
  if (!peer || !peer->handshake || !peer->handshake->unseal(sealed)) return std::nullopt;
  return control_message;
}

void FailureDetector::handle(const ControlMessage& control_message) {
  switch (control_message.kind) {
    case ControlMessage::Kind::stopped:
      observed_[control_message.sender.value].has_told = true;
      mark_lost(control_message.subject, Evidence::certain,
                control_message.subject == connections_.rank()
                    ? "the other ranks gave up this rank: " + control_message.text
                    : control_message.text,
                control_message.code);
      return;
    case ControlMessage::Kind::waiting:
      observed_[control_message.sender.value].answer = control_message;
      return;
    case ControlMessage::Kind::ask:
      answer(control_message.sender);
  }
}

void FailureDetector::answer(Rank asking) {
  const Activity* const activity = activities_.foremost();
  if (!activity) return;
  const auto& ranks = activities_.awaited_by(*activity);
  if (!ranks.empty())
    connections_.send_control(asking, encode({ControlMessage::Kind::waiting, connections_.rank(), ranks.front(),
                                              to_string(activity->operation())}));
}

/// Takes the answer of a rank of this node from the loss board: the second record after the question, since the first
/// one may have been under way already.
void FailureDetector::read_answer_on_board(Rank rank) {
  Observed& observed = observed_[rank.value];
  if (observed.answer || !board_.shown_wait) return;
  if (const auto wait = board_.shown_wait(rank);
      wait && wait->awaited && (connections_.known(*wait->awaited) || *wait->awaited == connections_.rank()) &&
      wait->looks > observed.looks + 2)
    observed.answer = ControlMessage{ControlMessage::Kind::waiting, rank, *wait->awaited, wait->operation};
}

/// Those of the dissemination barrier.
void FailureDetector::shake_hands_with_partners() {
  const int self = connections_.rank().value, size = connections_.size();
  for (int distance = 1; distance < size; distance *= 2)
    for (int rank : {(self + distance) % size, (self + size - distance) % size}) {
      const Peer& peer = connections_.peer(Rank(rank));
      if (rank != self && !peer.opened && !is_lost(peer.rank) && !is_known_dead(peer)) connections_.open(peer.rank);
    }
}

/// Peers whose handshake is under way get the message too.
void FailureDetector::tell_all(Rank subject, const std::string& why, ExitCode code) noexcept {
  if (std::exchange(told_, true)) return;
  try {
    if (board_.post_loss) board_.post_loss({subject, static_cast<int>(code), why});
    if (barrier_deadline_ && !barrier_deadline_->expired()) shake_hands_with_partners();
    const auto patience = barrier_deadline_
                              ? std::clamp<Clock::duration>(barrier_deadline_->remaining(), kHandshake, kBarrier)
                              : kHandshake;
    connections_.finish_handshakes(patience, [this](Rank rank) { return !is_lost(rank); });
    for (const Peer& peer : connections_.peers())
      if (!is_lost(peer.rank))
        connections_.send_control(peer.rank,
                                  encode({ControlMessage::Kind::stopped, connections_.rank(), subject, why, code}));
  } catch (const std::exception& error) {
    log(Severity::warning, "cannot report the loss to the other ranks: {}", error.what());
  }
  connections_.flush_small(kFarewell);
}

void FailureDetector::await_leaving(Milliseconds limit) noexcept {
  const auto is_here = [this](const Peer& peer) {
    const bool reads_board = connections_.share_memory(connections_.rank(), peer.rank);
    return peer.endpoint && peer.proved() && !reads_board && !is_lost(peer.rank) &&
           !observed_[peer.rank.value].has_told;
  };
  const Deadline deadline = Deadline::after(limit);
  try {
    while (!deadline.expired() && std::ranges::any_of(connections_.peers(), is_here)) {
      if (!connections_.progress()) std::this_thread::sleep_for(Milliseconds(1));
      poll();
    }
  } catch (const std::exception& error) {
    log(Severity::warning, "cannot wait for the other ranks to leave: {}", error.what());
  }
}

}  // namespace distdl::comm
