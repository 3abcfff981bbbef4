// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <distdl/comm/shm/node_memory.hpp>

namespace distdl::comm {

/// A message between two ranks of a node, on one of its sides.
class Letter {
 public:
  /// A message that is longer goes by UCX, and only its length and tag through the mailbox.
  bool is_short() const { return bytes.size() <= Mailbox::kMostBytes; }

  int peer = -1;  ///< index of the other rank among those of the node; -1: on another node
  std::uint32_t tag = 0;
  std::span<std::byte> bytes;
  bool receives = false;
  bool waits = false;                       ///< for room in the mailbox, or for the other side
  std::optional<std::uint64_t> other_size;  ///< bytes that the other side sent, unless they are as many as expected

 protected:
  ~Letter() = default;

 private:
  friend class Mail;
  /// Called when its place in the order of all messages to the peer is certain.
  virtual void on_posted() = 0;
};

/// The messages of a communicator between this rank and the others of its node. Messages with one tag from one rank are
/// matched in the order in which they were sent and in which their receives were posted, whatever their lengths.
class Mail {
 public:
  explicit Mail(NodeMemory& memory);

  /// Whether there is a mailbox between this rank and rank `local` of the node.
  bool reaches(int local) const { return local >= 0 && local < static_cast<int>(peers_.size()); }
  /// The letters must exist until they no longer wait, or are cancelled.
  void send(Letter& letter);
  void receive(Letter& letter);
  /// `transferred`: UCX has received the message, which is not short.
  void cancel(Letter& letter, bool transferred) noexcept;
  /// Takes what has come from a rank and puts what waits for it into the mailbox. Returns whether there was anything.
  bool poll(int local);
  bool poll_all();
  /// Whether rank `local` of the node has sent a message with this tag, for which there is no receive yet.
  bool holds(int local, std::uint32_t tag) const;

 private:
  /// A message without a receive.
  struct Early {
    std::uint32_t tag;
    std::uint64_t size;
    std::vector<std::byte> bytes;
  };
  struct Peer {
    Mailbox& to;
    Mailbox& from;
    std::uint64_t sent = 0, known_taken = 0, taken = 0;
    std::uint64_t sent_data = 0, known_taken_data = 0;  ///< ends, see Mailbox
    std::array<std::uint64_t, Mailbox::kSlots> ends{};  ///< end of the data of each slot
    std::vector<Letter*> outgoing{};                    ///< messages for which there is no room yet
    std::vector<Letter*> expected{};
    std::vector<Early> early{};
  };
  static bool flush(Peer& peer);
  static void acknowledge(Peer& peer, std::uint64_t taken);
  static bool has_room(Peer& peer, const Letter& letter);
  static bool take(Peer& peer);
  static void deliver(Letter& letter, std::uint64_t size, const std::byte* payload);

  std::vector<Peer> peers_;  ///< per rank of the node
};

}  // namespace distdl::comm
