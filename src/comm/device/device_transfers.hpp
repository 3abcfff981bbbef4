// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <distdl/comm/device/device_access.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// Bytes of a piece that is staged between a device and the network. It must be equal on all ranks, because it
/// determines how messages are divided.
constexpr std::size_t kStagingPiece = std::size_t{1} << 20;

/// The messages of one operation from and to a device's memory. If UCX transfers such memory, each message is one
/// transfer, which begins when the device has finished with the memory. Otherwise a message goes through host memory in
/// pieces, two at a time for each peer and direction: while one piece is sent, the next is copied.
///
/// The messages to (from) one peer and their pieces begin in order, so that they match those of the peer. Later work in
/// the device's queue can use received data.
class DeviceTransfers {
 public:
  DeviceTransfers(Fabric& fabric, DeviceAccess& device) : fabric_(fabric), device_(device) {}
  ~DeviceTransfers() { cancel(); }
  DeviceTransfers(const DeviceTransfers&) = delete;
  DeviceTransfers& operator=(const DeviceTransfers&) = delete;

  enum class Direction { send, receive };
  void add(Direction direction, std::span<std::byte> bytes, Rank peer, const Label& label, int group);
  /// Does the work that needs no waiting. Throws as Fabric::check() does.
  void advance(const Operation& operation);
  /// Whether all transfers of the group are done.
  bool done(int group) const;
  /// Appends the ranks for which the group waits; those from which it receives come first.
  void add_awaited(int group, std::vector<Rank>& ranks) const;
  /// Whether the device works on some piece.
  bool awaits_device() const;
  /// Number of state changes of pieces so far.
  std::uint64_t steps() const { return steps_; }
  /// Cancels the transfers that are not done. Afterwards the device no longer accesses their memory.
  void cancel() noexcept;

 private:
  struct Message {
    std::span<std::byte> bytes;
    Label label;
    int group;
    std::size_t begun = 0;  ///< bytes that have begun
    std::size_t done = 0;
  };
  struct Piece {
    explicit Piece(Fabric& fabric) : batch(fabric) {}
    enum class Stage { before_wire, on_wire, after_wire };
    Stage stage = Stage::before_wire;
    std::uint64_t message = 0;  ///< number of the message
    std::span<std::byte> device;
    tensor::Buffer staging;  ///< empty for a direct transfer
    tensor::Accelerator::Mark mark = 0;
    Batch batch;
  };
  struct Queue {
    Rank peer;
    Direction direction{};
    std::deque<Message> messages;
    std::uint64_t first = 0;   ///< number of messages.front()
    std::uint64_t next = 0;    ///< number of the first message that has not completely begun
    std::deque<Piece> pieces;  ///< pieces under way, in order
  };

  Queue& queue_of(Rank peer, Direction direction);
  bool may_begin(const Queue& queue) const;
  void begin_piece(Queue& queue);
  /// Returns true if the piece changed its state.
  bool advance(Queue& queue, Piece& piece, bool may_post, const Operation& operation);
  void post(Queue& queue, Piece& piece);
  void arrived(Piece& piece);
  static Message& message_of(Queue& queue, const Piece& piece) { return queue.messages[piece.message - queue.first]; }
  void finish_front(Queue& queue);

  Fabric& fabric_;
  DeviceAccess& device_;
  std::deque<Queue> queues_;
  std::vector<int> open_;  ///< number of unfinished messages of each group
  std::uint64_t steps_ = 0;
};

}  // namespace distdl::comm
