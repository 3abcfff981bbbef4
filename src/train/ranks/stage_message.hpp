// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>

namespace distdl::train {

/// Memory that ranks of one node share for messages: a rank writes a message there, and another one reads it. Otherwise
/// a long message, which is sent in pieces, would not arrive while its sender computes.
struct CommonRoom {
  std::span<std::byte> memory = {};  ///< empty: the ranks share none
  std::size_t next = 0;              ///< begin of the next place of this rank
  std::uint32_t places = 0;          ///< number of places of this rank so far
};

/// A message from one stage to another, of memory of the backend. Without a device it is sent from there and received
/// there, else through host memory.
class StageMessage {
 public:
  StageMessage(kernels::Backend& backend, comm::Communicator& communicator, std::uint32_t tag)
      : backend_(backend), communicator_(communicator), tag_(tag) {}

  /// Both sides call it, or none, before the first message. What is sent, of so many bytes at most, has a place in the
  /// room.
  void use(CommonRoom& room, std::size_t bytes);
  /// Bytes that a place for so many takes.
  static std::size_t room_for(std::size_t bytes);
  /// The memory must not change until settle() has returned.
  void send(std::span<const std::byte> values, Rank to);
  void settle();
  /// Returns when what was sent last has been received, or is on its way without this rank.
  void end();
  /// Waits. Throws comm::PeerLost.
  void receive(std::span<std::byte> values, Rank from);

 private:
  struct Location {
    std::uint64_t offset = 0, bytes = 0;  ///< offset of the values in the room, and their size
    std::uint32_t place = 0, unused = 0;
  };
  std::span<std::byte> staging(std::size_t bytes);
  void receive_from_room(std::span<std::byte> values, Rank from);

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  std::uint32_t tag_;
  tensor::Buffer staging_;
  std::span<std::byte> room_;   ///< all of it
  std::span<std::byte> place_;  ///< the part of room_ for messages that are sent
  Location location_;           ///< location of the last message that was sent
  std::byte answer_{};
  comm::Request sent_, answered_, answers_;
  bool is_under_way_ = false;
};

}  // namespace distdl::train
