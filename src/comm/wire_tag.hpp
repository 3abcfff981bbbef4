// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// What a message is for.
enum class Channel : std::uint8_t { hello = 1, goodbye, notice, user, collective };

/// UCX matches tagged receives by these 64 bits alone, whoever the sender is, so the source is part of them:
///   generation (8 bits) | channel (4) | source rank (16) | sequence (20) | stage (16)
/// Messages with equal tags arrive in the order in which they were sent, so numbers may wrap around.
constexpr std::uint64_t wire_tag(Generation generation, Channel channel, Rank source, std::uint32_t sequence,
                                 std::uint16_t stage) {
  return (std::uint64_t{generation.value & 0xFFu} << 56) | (static_cast<std::uint64_t>(channel) << 52) |
         (std::uint64_t{static_cast<std::uint16_t>(source.value)} << 36) | (std::uint64_t{sequence & 0xFFFFFu} << 16) |
         stage;
}

constexpr std::uint64_t kWholeTag = ~std::uint64_t{0};
/// Generation and channel only: from any rank.
constexpr std::uint64_t kAnySource = std::uint64_t{0xFFF} << 52;
constexpr int kMostRanks = 1 << 16;

}  // namespace distdl::comm
