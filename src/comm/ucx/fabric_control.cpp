// SPDX-License-Identifier: Apache-2.0
// Control messages: how ranks tell each other, beside the data, who is lost and whom they wait for.
#include <algorithm>
#include <thread>
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {
namespace {
constexpr Milliseconds kFarewell{300};
/// kBarrier: TCP repeats a lost packet that opens a connection after a second.
constexpr Milliseconds kHandshake{100}, kBarrier{1500};
}  // namespace

/// A control message can end the whole job: only those that a proved peer has sealed count.
void Fabric::read_control_messages() {
  while (const auto bytes = take(control_messages_)) {
    listen(control_messages_, Channel::control, kAnySource, kLongestControlMessage + kSealBytes);
    const auto control_message = open_control_message(*bytes);
    if (control_message)
      handle(*control_message);
    else if (++refused_.control_messages <= 10)
      log(Severity::warning, "refused a control message of {} bytes that no proved peer has sealed", bytes->size());
  }
}

std::optional<ControlMessage> Fabric::open_control_message(std::string_view sealed) {
  if (sealed.size() < kSealBytes) return std::nullopt;
  auto control_message = decode_control_message(sealed.substr(0, sealed.size() - kSealBytes));
  if (!control_message || control_message->subject.value < 0 || control_message->subject.value >= size())
    return std::nullopt;
  const Peer* peer = known(control_message->sender);
  if (!peer || !peer->handshake || !peer->handshake->unseal(sealed)) return std::nullopt;
  return control_message;
}

void Fabric::handle(const ControlMessage& control_message) {
  switch (control_message.kind) {
    case ControlMessage::Kind::stopped:
      mark_lost(control_message.subject, Evidence::certain,
                control_message.subject == self_ ? "the other ranks gave this rank up: " + control_message.text
                                                 : control_message.text,
                control_message.code);
      return;
    case ControlMessage::Kind::waiting:
      peers_[control_message.sender.value].answer = control_message;
      return;
    case ControlMessage::Kind::ask:
      answer(control_message.sender);
  }
}

void Fabric::answer(Rank asking) {
  const Activity* const activity = foremost();
  if (!activity) return;
  const auto& ranks = awaited(*activity);
  if (!ranks.empty())
    tell(peers_[asking.value], {ControlMessage::Kind::waiting, self_, ranks.front(), to_string(activity->operation())});
}

/// Takes the answer of a rank of this node from the loss board: the second record after the question, since the first
/// one may have been under way already.
void Fabric::read_answer_on_board(Peer& peer) {
  if (peer.answer || !board_.shown_wait) return;
  if (const auto wait = board_.shown_wait(peer.rank);
      wait && wait->awaited && (known(*wait->awaited) || *wait->awaited == self_) && wait->looks > peer.looks + 2)
    peer.answer = ControlMessage{ControlMessage::Kind::waiting, peer.rank, *wait->awaited, wait->operation};
}

void Fabric::tell(Peer& peer, const ControlMessage& control_message) {
  if (peer.handshake && peer.handshake->proved())
    post_small(peer, Channel::control, peer.handshake->seal(encode(control_message)));
}

/// Those of the dissemination barrier.
void Fabric::shake_hands_with_partners() {
  for (int distance = 1; distance < size(); distance *= 2)
    for (int rank : {(self_.value + distance) % size(), (self_.value + size() - distance) % size()}) {
      Peer& peer = peers_[rank];
      if (peer.rank != self_ && !peer.opened && !is_lost(peer.rank) && !is_known_dead(peer)) open(peer);
    }
}

/// Waits for handshakes under way, so that these peers get the message about the loss too.
void Fabric::finish_handshakes() {
  const auto is_handshaking = [this](const Peer& peer) {
    return peer.endpoint && peer.handshake && !peer.handshake->proved() && !is_lost(peer.rank);
  };
  const auto patience = barrier_deadline_
                            ? std::clamp<Clock::duration>(barrier_deadline_->remaining(), kHandshake, kBarrier)
                            : kHandshake;
  const Deadline deadline = Deadline::after(patience);
  while (worker_ && !deadline.expired() && std::any_of(peers_.begin(), peers_.end(), is_handshaking)) {
    if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::yield();
    read_handshakes();
  }
}

/// Each rank forwards the loss once to all peers with a finished handshake, which do the same.
void Fabric::tell_all(Rank subject, const std::string& why, ExitCode code) noexcept {
  if (std::exchange(told_, true)) return;
  try {
    if (board_.post_loss) board_.post_loss({subject, static_cast<int>(code), why});
    if (barrier_deadline_ && !barrier_deadline_->expired()) shake_hands_with_partners();
    finish_handshakes();
    for (Peer& peer : peers_)
      if (!is_lost(peer.rank)) tell(peer, {ControlMessage::Kind::stopped, self_, subject, why, code});
  } catch (const std::exception& error) {
    log(Severity::warning, "cannot tell the other ranks of the loss: {}", error.what());
  }
  if (!worker_) return;
  drain(outbox_, kFarewell);
  flush(kFarewell);
}

void Fabric::abort(const std::string& reason, ExitCode code) noexcept {
  if (!worker_ || std::exchange(closed_, true)) return;
  tell_all(self_, fmt::format("{} stopped: {}", name(self_), reason), code);
  cancel_activities();
  force_close_all();
}

}  // namespace distdl::comm
