// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/device/device_transfers.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kPiecesAtATime = 2;
}

DeviceTransfers::Lane& DeviceTransfers::lane(Rank peer, Direction direction) {
  for (Lane& lane : lanes_)
    if (lane.peer == peer && lane.direction == direction) return lane;
  Lane& lane = lanes_.emplace_back();
  lane.peer = peer;
  lane.direction = direction;
  return lane;
}

void DeviceTransfers::add(Direction direction, std::span<std::byte> bytes, Rank peer, const Label& label, int group) {
  if (bytes.empty()) return;
  if (open_.size() <= static_cast<std::size_t>(group)) open_.resize(static_cast<std::size_t>(group) + 1);
  ++open_[static_cast<std::size_t>(group)];
  Lane& to = lane(peer, direction);
  to.messages.push_back({bytes, label, group});
  while (may_begin(to)) begin_piece(to);
}

bool DeviceTransfers::may_begin(const Lane& lane) const {
  return lane.next < lane.first + lane.messages.size() && (device_.direct || lane.pieces.size() < kPiecesAtATime);
}

/// Puts the device's part that comes before the wire into its queue. All work that the piece depends on is in there.
void DeviceTransfers::begin_piece(Lane& lane) {
  Message& message = lane.messages[lane.next - lane.first];
  const std::size_t left = message.bytes.size() - message.begun;
  const std::size_t size = device_.direct ? left : std::min(left, kStagingPiece);
  Piece& piece = lane.pieces.emplace_back(fabric_);
  piece.message = lane.next;
  piece.device = message.bytes.subspan(message.begun, size);
  message.begun += size;
  if (message.begun == message.bytes.size()) ++lane.next;
  if (device_.direct) {
    piece.mark = device_.accelerator->mark();
    return;
  }
  piece.staging = device_.staging.take(size);
  if (lane.direction == Direction::send)
    piece.mark = device_.accelerator->copy_to_host(piece.staging.data(), piece.device.data(), size);
}

void DeviceTransfers::advance(const Operation& operation) {
  for (Lane& lane : lanes_)
    for (bool further = true; further;) {
      further = false;
      bool may_post = true;  // all before this one are on the wire
      for (Piece& piece : lane.pieces) {
        further |= advance(lane, piece, may_post, operation);
        may_post = may_post && piece.stage != Piece::Stage::before_wire;
      }
      const std::size_t before = lane.pieces.size();
      finish_front(lane);
      further |= lane.pieces.size() != before;
      while (may_begin(lane)) begin_piece(lane);
    }
}

bool DeviceTransfers::advance(Lane& lane, Piece& piece, bool may_post, const Operation& operation) {
  const bool waits_for_device = device_.direct || lane.direction == Direction::send;
  if (piece.stage == Piece::Stage::before_wire) {
    if (!may_post || (waits_for_device && !device_.accelerator->reached(piece.mark))) return false;
    post(lane, piece);
  } else if (piece.stage == Piece::Stage::on_wire) {
    if (!piece.batch.done()) return false;
    fabric_.check(piece.batch, operation);
    Message& message = message_of(lane, piece);
    message.done += piece.device.size();
    piece.stage = Piece::Stage::after_wire;
    if (!device_.direct && lane.direction == Direction::receive) {
      device_.accelerator->copy_from_host(piece.device.data(), piece.staging.data(), piece.device.size());
      piece.mark = device_.accelerator->mark();
    }
    if (message.done == message.bytes.size()) --open_[static_cast<std::size_t>(message.group)];
  } else {
    return false;
  }
  ++steps_;
  return true;
}

void DeviceTransfers::post(Lane& lane, Piece& piece) {
  const Label& label = message_of(lane, piece).label;
  const std::span<std::byte> bytes =
      device_.direct ? piece.device : std::span(static_cast<std::byte*>(piece.staging.data()), piece.device.size());
  const auto memory = device_.direct ? device_.memory_type : UCS_MEMORY_TYPE_HOST;
  if (lane.direction == Direction::send)
    fabric_.send(piece.batch, bytes, lane.peer, label, memory);
  else
    fabric_.receive(piece.batch, bytes, lane.peer, label, memory);
  piece.stage = Piece::Stage::on_wire;
}

/// Pieces end in their order; the wire takes them in their order too.
void DeviceTransfers::finish_front(Lane& lane) {
  const bool waits_for_device = !device_.direct && lane.direction == Direction::receive;
  while (!lane.pieces.empty() && lane.pieces.front().stage == Piece::Stage::after_wire) {
    Piece& piece = lane.pieces.front();
    if (waits_for_device && !device_.accelerator->reached(piece.mark)) return;
    if (piece.staging.data()) device_.staging.give_back(std::move(piece.staging));
    lane.pieces.pop_front();
    while (!lane.messages.empty() && lane.messages.front().done == lane.messages.front().bytes.size()) {
      if (!lane.pieces.empty() && lane.pieces.front().message == lane.first) break;
      lane.messages.pop_front();
      ++lane.first;
    }
    ++steps_;
  }
}

bool DeviceTransfers::done(int group) const {
  return static_cast<std::size_t>(group) >= open_.size() || open_[static_cast<std::size_t>(group)] == 0;
}

void DeviceTransfers::add_awaited(int group, std::vector<Rank>& ranks) const {
  for (const Direction direction : {Direction::receive, Direction::send})
    for (const Lane& lane : lanes_) {
      if (lane.direction != direction) continue;
      const auto waits = [&](const Piece& piece) {
        return piece.stage == Piece::Stage::on_wire && !piece.batch.done() &&
               lane.messages[piece.message - lane.first].group == group;
      };
      if (std::any_of(lane.pieces.begin(), lane.pieces.end(), waits)) ranks.push_back(lane.peer);
    }
}

bool DeviceTransfers::awaits_device() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return std::any_of(lane.pieces.begin(), lane.pieces.end(),
                       [](const Piece& piece) { return piece.stage != Piece::Stage::on_wire; });
  });
}

void DeviceTransfers::cancel() noexcept {
  bool any = false;
  for (Lane& lane : lanes_)
    for (Piece& piece : lane.pieces) {
      fabric_.cancel(piece.batch);
      any = true;
    }
  if (any) device_.accelerator->drain();
  for (Lane& lane : lanes_)
    for (Piece& piece : lane.pieces)
      if (piece.staging.data()) device_.staging.give_back(std::move(piece.staging));
  lanes_.clear();
  open_.clear();
}

}  // namespace distdl::comm
