// SPDX-License-Identifier: Apache-2.0
// Notices: how ranks tell each other, beside the data, who is lost and whom they wait for.
#include <algorithm>
#include <thread>
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {
namespace {
constexpr Milliseconds kFarewell{300};
/// At a meeting long enough for TCP to repeat a lost packet that opens a connection, after a second.
constexpr Milliseconds kGreeting{100}, kMeeting{1500};
}  // namespace

/// A notice can end the whole job: only those that a proved peer has sealed count.
void Fabric::read_notices() {
  while (const auto bytes = take(notices_)) {
    listen(notices_, Channel::notice, kAnySource, kLongestNotice + kSealBytes);
    const auto notice = open_notice(*bytes);
    if (notice)
      handle(*notice);
    else if (++refused_.notices <= 10)
      log(Severity::warning, "refused a notice of {} bytes that no proved peer has sealed", bytes->size());
  }
}

std::optional<Notice> Fabric::open_notice(std::string_view sealed) {
  if (sealed.size() < kSealBytes) return std::nullopt;
  auto notice = decode_notice(sealed.substr(0, sealed.size() - kSealBytes));
  if (!notice || notice->subject.value < 0 || notice->subject.value >= size()) return std::nullopt;
  const Peer* peer = known(notice->sender);
  if (!peer || !peer->handshake || !peer->handshake->unseal(sealed)) return std::nullopt;
  return notice;
}

void Fabric::handle(const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::stopped:
      mark_lost(notice.subject, Evidence::certain,
                notice.subject == self_ ? "the other ranks gave this rank up: " + notice.text : notice.text,
                notice.code);
      return;
    case Notice::Kind::waiting:
      peers_[notice.sender.value].answer = notice;
      return;
    case Notice::Kind::ask:
      answer(notice.sender);
  }
}

void Fabric::answer(Rank asking) {
  const Activity* const activity = foremost();
  if (!activity) return;
  const auto& ranks = awaited(*activity);
  if (!ranks.empty())
    tell(peers_[asking.value], {Notice::Kind::waiting, self_, ranks.front(), to_string(activity->operation())});
}

/// Shown by a neighbour after it was asked: two looks later, for it may have been writing the first.
void Fabric::read_answer_on_board(Peer& peer) {
  if (peer.answer || !board_.shown_wait) return;
  if (const auto wait = board_.shown_wait(peer.rank);
      wait && wait->awaited && (known(*wait->awaited) || *wait->awaited == self_) && wait->looks > peer.looks + 2)
    peer.answer = Notice{Notice::Kind::waiting, peer.rank, *wait->awaited, wait->operation};
}

void Fabric::tell(Peer& peer, const Notice& notice) {
  if (peer.handshake && peer.handshake->proved())
    post_small(peer, Channel::notice, peer.handshake->seal(encode(notice)));
}

/// Those of the dissemination barrier.
void Fabric::greet_partners() {
  for (int distance = 1; distance < size(); distance *= 2)
    for (int rank : {(self_.value + distance) % size(), (self_.value + size() - distance) % size()}) {
      Peer& peer = peers_[rank];
      if (peer.rank != self_ && !peer.opened && !is_lost(peer.rank) && !is_known_dead(peer)) open(peer);
    }
}

/// Who is about to prove itself shall hear the farewell too.
void Fabric::finish_greetings() {
  const auto greets = [this](const Peer& peer) {
    return peer.endpoint && peer.handshake && !peer.handshake->proved() && !is_lost(peer.rank);
  };
  const auto patience = meeting_ ? std::clamp<Clock::duration>(meeting_->remaining(), kGreeting, kMeeting) : kGreeting;
  const Deadline deadline = Deadline::after(patience);
  while (worker_ && !deadline.expired() && std::any_of(peers_.begin(), peers_.end(), greets)) {
    if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::yield();
    read_greetings();
  }
}

/// Each rank passes on once what it has learnt to those it has spoken with, who do the same.
void Fabric::tell_all(Rank subject, const std::string& why, ExitCode code) noexcept {
  if (std::exchange(told_, true)) return;
  try {
    if (board_.post_loss) board_.post_loss({subject, static_cast<int>(code), why});
    if (meeting_ && !meeting_->expired()) greet_partners();
    finish_greetings();
    for (Peer& peer : peers_)
      if (!is_lost(peer.rank)) tell(peer, {Notice::Kind::stopped, self_, subject, why, code});
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
