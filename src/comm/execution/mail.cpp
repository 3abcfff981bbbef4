// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/comm/execution/mail.hpp>

namespace distdl::comm {

Mail::Mail(NodeMemory& memory) {
  const int ranks = std::min(memory.size(), RankArea::kMailboxes);
  if (memory.self() >= ranks) return;
  for (int local = 0; local < ranks; ++local)
    peers_.push_back({memory.mailbox(memory.self(), local), memory.mailbox(local, memory.self()), 0, 0, 0, {}, {}, {}});
}

void Mail::send(Letter& letter) {
  Peer& peer = peers_[letter.peer];
  letter.waits = true;
  letter.receives = false;
  peer.outgoing.push_back(&letter);
  flush(peer);
}

void Mail::receive(Letter& letter) {
  Peer& peer = peers_[letter.peer];
  const auto early = std::find_if(peer.early.begin(), peer.early.end(),
                                  [&](const Early& message) { return message.tag == letter.tag; });
  letter.waits = letter.receives = true;
  letter.other_size.reset();
  if (early == peer.early.end()) return peer.expected.push_back(&letter);
  deliver(letter, early->size, early->bytes.data());
  peer.early.erase(early);
}

/// What UCX has not transferred yet is there for the next receive.
void Mail::cancel(Letter& letter, bool transferred) noexcept {
  Peer& peer = peers_[letter.peer];
  if (letter.receives && !letter.is_short() && transferred && letter.waits) take(peer);
  if (letter.receives && !letter.is_short() && !transferred && !letter.waits && !letter.other_size)
    peer.early.insert(peer.early.begin(), {letter.tag, letter.bytes.size(), {}});
  std::erase(peer.outgoing, &letter);
  std::erase(peer.expected, &letter);
  letter.waits = false;
}

bool Mail::poll(int local) {
  Peer& peer = peers_[local];
  const bool sent = flush(peer), taken = take(peer);
  return sent || taken;
}

bool Mail::poll_all() {
  bool any = false;
  for (int local = 0; reaches(local); ++local) any |= poll(local);
  return any;
}

bool Mail::flush(Peer& peer) {
  const std::uint64_t before = peer.sent;
  while (!peer.outgoing.empty()) {
    if (peer.sent - peer.known_taken == Mailbox::kSlots)
      peer.known_taken = peer.to.taken.load(std::memory_order_acquire);
    if (peer.sent - peer.known_taken == Mailbox::kSlots) break;
    Letter& letter = *peer.outgoing.front();
    peer.outgoing.erase(peer.outgoing.begin());
    Mailbox::Slot& slot = peer.to.slots[peer.sent % Mailbox::kSlots];
    slot.bytes = letter.bytes.size();
    slot.tag = letter.tag;
    if (letter.is_short() && !letter.bytes.empty()) std::memcpy(slot.payload, letter.bytes.data(), letter.bytes.size());
    slot.number.store(++peer.sent, std::memory_order_release);
    letter.waits = false;
    letter.on_posted();
  }
  return peer.sent != before;
}

bool Mail::take(Peer& peer) {
  const std::uint64_t before = peer.taken;
  while (true) {
    const Mailbox::Slot& slot = peer.from.slots[peer.taken % Mailbox::kSlots];
    if (slot.number.load(std::memory_order_acquire) != peer.taken + 1) return peer.taken != before;
    const auto expected = std::find_if(peer.expected.begin(), peer.expected.end(),
                                       [&](const Letter* letter) { return letter->tag == slot.tag; });
    if (expected == peer.expected.end()) {
      const std::size_t length = slot.bytes <= Mailbox::kMostBytes ? slot.bytes : 0;
      peer.early.push_back({slot.tag, slot.bytes, {slot.payload, slot.payload + length}});
    } else {
      deliver(**expected, slot.bytes, slot.payload);
      peer.expected.erase(expected);
    }
    peer.from.taken.store(++peer.taken, std::memory_order_release);
  }
}

void Mail::deliver(Letter& letter, std::uint64_t size, const std::byte* payload) {
  letter.waits = false;
  if (size != letter.bytes.size())
    letter.other_size = size;
  else if (letter.is_short() && size > 0)
    std::memcpy(letter.bytes.data(), payload, size);
}

}  // namespace distdl::comm
