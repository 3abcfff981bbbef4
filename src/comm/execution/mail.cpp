// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/comm/execution/mail.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kData = Mailbox::kDataBytes;
}

Mail::Mail(NodeMemory& memory) {
  const int ranks = std::min(memory.size(), RankArea::kMailboxes);
  if (memory.self() >= ranks) return;
  for (int local = 0; local < ranks; ++local)
    peers_.push_back({memory.mailbox(memory.self(), local), memory.mailbox(local, memory.self())});
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

/// Data that UCX has not transferred yet are there for the next receive.
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

bool Mail::holds(int local, std::uint32_t tag) const {
  return std::ranges::any_of(peers_[local].early, [tag](const Early& message) { return message.tag == tag; });
}

bool Mail::flush(Peer& peer) {
  const std::uint64_t before = peer.sent;
  while (!peer.outgoing.empty() && has_room(peer, *peer.outgoing.front())) {
    Letter& letter = *peer.outgoing.front();
    peer.outgoing.erase(peer.outgoing.begin());
    const std::size_t size = letter.bytes.size();
    Mailbox::Slot& slot = peer.to.slots[peer.sent % Mailbox::kSlots];
    slot.bytes = size;
    slot.tag = letter.tag;
    slot.place = static_cast<std::uint32_t>(Mailbox::begin_of(peer.sent_data, size) % kData);
    slot.acknowledged = static_cast<std::uint32_t>(peer.taken);
    std::byte* const payload = size <= Mailbox::kInSlot ? slot.payload : peer.to.data + slot.place;
    if (letter.is_short() && size > 0) std::memcpy(payload, letter.bytes.data(), size);
    peer.sent_data = Mailbox::end_of(peer.sent_data, size);
    peer.ends[peer.sent % Mailbox::kSlots] = peer.sent_data;
    slot.number.store(static_cast<std::uint32_t>(++peer.sent), std::memory_order_release);
    letter.waits = false;
    letter.on_posted();
  }
  return peer.sent != before;
}

void Mail::acknowledge(Peer& peer, std::uint64_t taken) {
  if (taken == peer.known_taken) return;
  peer.known_taken = taken;
  peer.known_taken_data = peer.ends[(taken - 1) % Mailbox::kSlots];
}

/// Where nothing is on its way, data begin anew at the same place, which is in the caches of both ranks.
bool Mail::has_room(Peer& peer, const Letter& letter) {
  if (peer.known_taken == peer.sent)
    peer.known_taken_data = peer.sent_data = (peer.sent_data + kData - 1) / kData * kData;
  const auto fits = [&] {
    return peer.sent - peer.known_taken < Mailbox::kSlots &&
           Mailbox::end_of(peer.sent_data, letter.bytes.size()) - peer.known_taken_data <= kData;
  };
  if (fits()) return true;
  acknowledge(peer, peer.to.taken.load(std::memory_order_acquire));
  return fits();
}

/// At most what the mailbox holds at one time: this rank has other things to do too.
bool Mail::take(Peer& peer) {
  const std::uint64_t before = peer.taken;
  while (peer.taken != before + Mailbox::kSlots) {
    const Mailbox::Slot& slot = peer.from.slots[peer.taken % Mailbox::kSlots];
    if (slot.number.load(std::memory_order_acquire) != static_cast<std::uint32_t>(peer.taken + 1)) break;
    // The upper half is missing. The number may be older than what this rank has read from the mailbox since.
    const auto news = static_cast<std::int32_t>(slot.acknowledged - static_cast<std::uint32_t>(peer.known_taken));
    if (news > 0) acknowledge(peer, peer.known_taken + static_cast<std::uint32_t>(news));
    const std::byte* const payload = slot.bytes <= Mailbox::kInSlot ? slot.payload : peer.from.data + slot.place;
    const auto expected = std::find_if(peer.expected.begin(), peer.expected.end(),
                                       [&](const Letter* letter) { return letter->tag == slot.tag; });
    if (expected == peer.expected.end()) {
      const std::size_t length = slot.bytes <= Mailbox::kMostBytes ? slot.bytes : 0;
      peer.early.push_back({slot.tag, slot.bytes, {payload, payload + length}});
    } else {
      deliver(**expected, slot.bytes, payload);
      peer.expected.erase(expected);
    }
    peer.from.taken.store(++peer.taken, std::memory_order_release);
  }
  return peer.taken != before;
}

void Mail::deliver(Letter& letter, std::uint64_t size, const std::byte* payload) {
  letter.waits = false;
  if (size != letter.bytes.size())
    letter.other_size = size;
  else if (letter.is_short() && size > 0)
    std::memcpy(letter.bytes.data(), payload, size);
}

}  // namespace distdl::comm
