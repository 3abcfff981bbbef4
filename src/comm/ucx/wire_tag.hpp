// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// The purpose of a message.
enum class Channel : std::uint8_t { hello = 1, close, control, user, collective };

/// Identifies messages that belong together. Messages with the same label between two ranks are matched in the order of
/// sends and posted receives, so numbers may wrap around.
struct Label {
  Channel channel = Channel::collective;
  std::uint8_t communicator = 0;
  std::uint32_t number = 0;  ///< number of a collective, or tag of a user's message: 28 bits
};

/// UCX matches tagged receives only by these 64 bits, whoever the sender is. The source is therefore a part of them:
///   generation (8 bits) | channel (4) | communicator (8) | source rank (16) | number (28)
constexpr std::uint64_t wire_tag(Generation generation, Rank source, const Label& label) {
  return (std::uint64_t{generation.value & 0xFFu} << 56) | (static_cast<std::uint64_t>(label.channel) << 52) |
         (std::uint64_t{label.communicator} << 44) | (std::uint64_t{static_cast<std::uint16_t>(source.value)} << 28) |
         (label.number & 0xFFFFFFFu);
}

constexpr std::uint64_t kWholeTag = ~std::uint64_t{0};
/// Mask of generation and channel: matches messages from any rank.
constexpr std::uint64_t kAnySource = std::uint64_t{0xFFF} << 52;
/// Mask of the channel: matches messages from any rank of any generation.
constexpr std::uint64_t kAnyGeneration = std::uint64_t{0xF} << 52;
/// Mask of communicator and number. Two authenticated ranks combine these bits of the tags between them with a secret
/// token, so that no other process can send a message that matches a posted receive.
constexpr std::uint64_t kDisguised = (std::uint64_t{0xFF} << 44) | 0xFFFFFFFu;
constexpr int kMostRanks = 1 << 16;
constexpr int kMostCommunicators = (1 << 8) - 1;
constexpr std::uint32_t kMostTag = (1u << 28) - 1;

}  // namespace distdl::comm
