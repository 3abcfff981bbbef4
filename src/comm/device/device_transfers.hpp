// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <distdl/comm/device/device_access.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// Bytes that travel at a time between a device and the wire. Equal on all ranks: it decides how messages are cut.
constexpr std::size_t kStagingPiece = std::size_t{1} << 20;

/// The messages of one operation from and to a device's memory. Where UCX moves such memory, each is one transfer that
/// begins once the device is done with the memory. Else it goes through host memory in pieces, two at a time for each
/// peer and direction: while one is on the wire, the next is copied.
///
/// The messages to (from) one peer begin in their order, and their pieces too, so that they match those of the peer.
/// Received data are there for what follows in the device's queue.
class DeviceTransfers {
 public:
  DeviceTransfers(Fabric& fabric, DeviceAccess& device) : fabric_(fabric), device_(device) {}
  ~DeviceTransfers() { cancel(); }
  DeviceTransfers(const DeviceTransfers&) = delete;
  DeviceTransfers& operator=(const DeviceTransfers&) = delete;

  enum class Direction { send, receive };
  void add(Direction direction, std::span<std::byte> bytes, Rank peer, const Label& label, int group);
  /// Does what can be done without waiting. Throws as Fabric::check().
  void advance(const Operation& operation);
  /// All of the group are done.
  bool done(int group) const;
  /// Appends whom the wire's part of the group waits for; those received from first.
  void add_awaited(int group, std::vector<Rank>& ranks) const;
  /// Is the device at work on some piece?
  bool awaits_device() const;
  /// Pieces that have come further, so far.
  std::uint64_t steps() const { return steps_; }
  /// Gives up what is not done; afterwards the device no longer works on it.
  void cancel() noexcept;

 private:
  struct Message {
    std::span<std::byte> bytes;
    Label label;
    int group;
    std::size_t begun = 0;  ///< bytes
    std::size_t done = 0;
  };
  struct Piece {
    explicit Piece(Fabric& fabric) : batch(fabric) {}
    enum class Stage { before_wire, on_wire, after_wire };
    Stage stage = Stage::before_wire;
    std::uint64_t message = 0;  ///< number
    std::span<std::byte> device;
    tensor::Buffer staging;  ///< empty where direct
    tensor::Accelerator::Mark mark = 0;
    Batch batch;
  };
  struct Queue {
    Rank peer;
    Direction direction{};
    std::deque<Message> messages;
    std::uint64_t first = 0;   ///< number of messages.front()
    std::uint64_t next = 0;    ///< of the first that has not begun completely
    std::deque<Piece> pieces;  ///< under way, in their order
  };

  Queue& queue_of(Rank peer, Direction direction);
  bool may_begin(const Queue& queue) const;
  void begin_piece(Queue& queue);
  /// True if it came further.
  bool advance(Queue& queue, Piece& piece, bool may_post, const Operation& operation);
  void post(Queue& queue, Piece& piece);
  void arrived(Piece& piece);
  static Message& message_of(Queue& queue, const Piece& piece) { return queue.messages[piece.message - queue.first]; }
  void finish_front(Queue& queue);

  Fabric& fabric_;
  DeviceAccess& device_;
  std::deque<Queue> queues_;
  std::vector<int> open_;  ///< messages of each group that are not done
  std::uint64_t steps_ = 0;
};

}  // namespace distdl::comm
