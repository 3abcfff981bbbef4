// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/device/device_transfers.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kPiecesAtATime = 2;
}

DeviceTransfers::Queue& DeviceTransfers::queue_of(Rank peer, Direction direction) {
  for (Queue& queue : queues_)
    if (queue.peer == peer && queue.direction == direction) return queue;
  Queue& queue = queues_.emplace_back();
  queue.peer = peer;
  queue.direction = direction;
  return queue;
}

void DeviceTransfers::add(Direction direction, std::span<std::byte> bytes, Rank peer, const Label& label, int group) {
  if (bytes.empty()) return;
  if (open_.size() <= static_cast<std::size_t>(group)) open_.resize(static_cast<std::size_t>(group) + 1);
  ++open_[static_cast<std::size_t>(group)];
  Queue& to = queue_of(peer, direction);
  to.messages.push_back({bytes, label, group});
  while (may_begin(to)) begin_piece(to);
}

bool DeviceTransfers::may_begin(const Queue& queue) const {
  return queue.next < queue.first + queue.messages.size() && (device_.direct || queue.pieces.size() < kPiecesAtATime);
}

/// Puts the device's part that comes before the wire into its queue. All work that the piece depends on is in there.
void DeviceTransfers::begin_piece(Queue& queue) {
  Message& message = queue.messages[queue.next - queue.first];
  const std::size_t left = message.bytes.size() - message.begun;
  const std::size_t size = device_.direct ? left : std::min(left, kStagingPiece);
  Piece& piece = queue.pieces.emplace_back(fabric_);
  piece.message = queue.next;
  piece.device = message.bytes.subspan(message.begun, size);
  message.begun += size;
  if (message.begun == message.bytes.size()) ++queue.next;
  if (device_.direct) {
    piece.mark = device_.accelerator->mark();
    return;
  }
  piece.staging = device_.staging.take(size);
  if (queue.direction == Direction::send)
    piece.mark = device_.accelerator->copy_to_host(piece.staging.data(), piece.device.data(), size);
}

void DeviceTransfers::advance(const Operation& operation) {
  for (Queue& queue : queues_)
    for (bool further = true; further;) {
      further = false;
      bool may_post = true;  // all before this one are on the wire
      for (Piece& piece : queue.pieces) {
        further |= advance(queue, piece, may_post, operation);
        may_post = may_post && piece.stage != Piece::Stage::before_wire;
      }
      const std::size_t before = queue.pieces.size();
      finish_front(queue);
      further |= queue.pieces.size() != before;
      while (may_begin(queue)) begin_piece(queue);
    }
}

bool DeviceTransfers::advance(Queue& queue, Piece& piece, bool may_post, const Operation& operation) {
  const bool waits_for_device = device_.direct || queue.direction == Direction::send;
  if (piece.stage == Piece::Stage::before_wire) {
    if (!may_post || (waits_for_device && !device_.accelerator->reached(piece.mark))) return false;
    post(queue, piece);
  } else if (piece.stage == Piece::Stage::on_wire) {
    if (!piece.batch.done()) return false;
    fabric_.check(piece.batch, operation);
    Message& message = message_of(queue, piece);
    message.done += piece.device.size();
    piece.stage = Piece::Stage::after_wire;
    if (!device_.direct && queue.direction == Direction::receive) {
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

void DeviceTransfers::post(Queue& queue, Piece& piece) {
  const Label& label = message_of(queue, piece).label;
  const std::span<std::byte> bytes =
      device_.direct ? piece.device : std::span(static_cast<std::byte*>(piece.staging.data()), piece.device.size());
  const auto memory = device_.direct ? device_.memory_type : UCS_MEMORY_TYPE_HOST;
  if (queue.direction == Direction::send)
    fabric_.send(piece.batch, bytes, queue.peer, label, memory);
  else
    fabric_.receive(piece.batch, bytes, queue.peer, label, memory);
  piece.stage = Piece::Stage::on_wire;
}

/// Pieces end in their order; the wire takes them in their order too.
void DeviceTransfers::finish_front(Queue& queue) {
  const bool waits_for_device = !device_.direct && queue.direction == Direction::receive;
  while (!queue.pieces.empty() && queue.pieces.front().stage == Piece::Stage::after_wire) {
    Piece& piece = queue.pieces.front();
    if (waits_for_device && !device_.accelerator->reached(piece.mark)) return;
    if (piece.staging.data()) device_.staging.give_back(std::move(piece.staging));
    queue.pieces.pop_front();
    while (!queue.messages.empty() && queue.messages.front().done == queue.messages.front().bytes.size()) {
      if (!queue.pieces.empty() && queue.pieces.front().message == queue.first) break;
      queue.messages.pop_front();
      ++queue.first;
    }
    ++steps_;
  }
}

bool DeviceTransfers::done(int group) const {
  return static_cast<std::size_t>(group) >= open_.size() || open_[static_cast<std::size_t>(group)] == 0;
}

void DeviceTransfers::add_awaited(int group, std::vector<Rank>& ranks) const {
  for (const Direction direction : {Direction::receive, Direction::send})
    for (const Queue& queue : queues_) {
      if (queue.direction != direction) continue;
      const auto waits = [&](const Piece& piece) {
        return piece.stage == Piece::Stage::on_wire && !piece.batch.done() &&
               queue.messages[piece.message - queue.first].group == group;
      };
      if (std::any_of(queue.pieces.begin(), queue.pieces.end(), waits)) ranks.push_back(queue.peer);
    }
}

bool DeviceTransfers::awaits_device() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const Queue& queue) {
    return std::any_of(queue.pieces.begin(), queue.pieces.end(),
                       [](const Piece& piece) { return piece.stage != Piece::Stage::on_wire; });
  });
}

void DeviceTransfers::cancel() noexcept {
  bool any = false;
  for (Queue& queue : queues_)
    for (Piece& piece : queue.pieces) {
      fabric_.cancel(piece.batch);
      any = true;
    }
  if (any) device_.accelerator->drain();
  for (Queue& queue : queues_)
    for (Piece& piece : queue.pieces)
      if (piece.staging.data()) device_.staging.give_back(std::move(piece.staging));
  queues_.clear();
  open_.clear();
}

}  // namespace distdl::comm
