// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <distdl/model/network.hpp>
#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {

/// Values behind the gradients of the parameters: the totals of the microbatch.
using Tail = std::array<float, model::Network::kTail>;

/// The number of the active messages in which packets are sent, see comm::Communicator::on_message().
constexpr std::uint16_t kPacketMessage = 0x5053;

/// A message on its way, without the bytes of parameters or gradients that go with it.
struct Packet {
  std::int64_t round = 0;  ///< round of the sender: messages of an earlier one are dropped
  Node from, to;
  Message message;
  Tail tail{};              ///< totals that belong to a Push or a Replicate
  double idle_seconds = 0;  ///< idle time of the server before a Pulled, see IdleTimes
  /// For a Pulled: where in the sender's exposed memory the version begins. None: its bytes come with the packet, or
  /// are here already.
  std::optional<std::uint64_t> place = {};
};

/// At most comm::kLongestHeader bytes, where there is no ledger with gaps.
std::string encode(const Packet& packet);
/// Throws CommError for bytes that encode() did not make.
Packet decode(std::string_view bytes);

}  // namespace distdl::parallel::server
