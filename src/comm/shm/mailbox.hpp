// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace distdl::comm {

/// The messages of one rank of a node to another one, in shared memory and in order. A short message is in it: in its
/// slot, or in one piece of `data`. Of longer ones, which UCX transfers, it has the lengths and the tags, because the
/// order of all messages with one tag counts. Only the sender writes slots and data, only the receiver what is taken.
// Zeroed memory is its initial state.
// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init, clang-analyzer-optin.performance.Padding)
struct alignas(128) Mailbox {
  static constexpr std::size_t kSlots = 64;
  static constexpr std::size_t kInSlot = 40;                       ///< bytes of a message that need no data
  static constexpr std::size_t kMostBytes = std::size_t{8} << 10;  ///< most bytes of a short message
  static constexpr std::size_t kDataBytes = 2 * kMostBytes;        ///< room for any message if nothing else is there

  struct alignas(64) Slot {
    std::atomic<std::uint32_t> number;  ///< number of the message in it, from 1 on, modulo 2^32; written last
    std::uint32_t acknowledged;         ///< number of the last message of the other direction that the sender has taken
    std::uint32_t tag;
    std::uint32_t place;  ///< place of the message in `data`
    std::uint64_t bytes;
    std::byte payload[kInSlot];
  };

  Slot slots[kSlots];
  alignas(128) std::byte data[kDataBytes];
  alignas(128) std::atomic<std::uint64_t> taken;  ///< number of the last message that the receiver has taken

  /// Where in the endless sequence of data, which begins again every kDataBytes, a message lies after data that end at
  /// `end`: in whole cache lines, and not across the end of `data`.
  static std::uint64_t begin_of(std::uint64_t end, std::size_t bytes) {
    return end % kDataBytes + bytes > kDataBytes ? end + kDataBytes - end % kDataBytes : end;
  }
  /// The end of the data of a message. Messages in their slots, and those by UCX, have none.
  static std::uint64_t end_of(std::uint64_t end, std::uint64_t bytes) {
    return bytes <= kInSlot || bytes > kMostBytes ? end : begin_of(end, bytes) + (bytes + 63) / 64 * 64;
  }
};
// NOLINTEND(cppcoreguidelines-pro-type-member-init, clang-analyzer-optin.performance.Padding)
static_assert(sizeof(Mailbox::Slot) == 64, "one cache line");

}  // namespace distdl::comm
