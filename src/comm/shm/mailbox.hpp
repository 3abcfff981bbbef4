// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace distdl::comm {

/// The messages of one rank of a node to another one, in shared memory and in order. Short messages are in it. Of
/// longer ones, which UCX transfers, it has the lengths and the tags, because the order of all messages with one tag
/// counts. Only the sender writes the slots, only the receiver writes `taken`.
// Zeroed memory is its initial state.
// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init, clang-analyzer-optin.performance.Padding)
struct alignas(128) Mailbox {
  static constexpr std::size_t kSlots = 8;
  static constexpr std::size_t kMostBytes = 552;  ///< of a short message

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> number;  ///< of the message in it, from 1 on; written last
    std::uint64_t bytes;
    std::uint32_t tag;
    std::uint32_t unused;
    std::byte payload[kMostBytes];  ///< begins in the cache line of the number
  };

  Slot slots[kSlots];
  alignas(128) std::atomic<std::uint64_t> taken;  ///< number of the last message that the receiver has taken
};
// NOLINTEND(cppcoreguidelines-pro-type-member-init, clang-analyzer-optin.performance.Padding)
static_assert(sizeof(Mailbox::Slot) == 576, "a short message begins in the cache line of its number");

}  // namespace distdl::comm
