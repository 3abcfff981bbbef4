// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::comm {

/// The information that a rank publishes before the ranks are connected. World::all_gather_strings() distributes it.
struct PeerAddress {
  std::uint32_t generation = 0;
  std::int32_t pid = 0;
  std::string secret;           ///< secret of the job for handshakes; empty except in the address of rank 0
  std::string host;             ///< host name
  std::string memory;           ///< equal for ranks with the same /dev/shm and System V memory
  std::string process_space;    ///< equal for ranks with the same process ids
  std::string network_address;  ///< address of the UCX worker without shared memory
  std::string full_address;     ///< address of the UCX worker
  std::string segment;          ///< NodeMemory::name()
  bool operator==(const PeerAddress&) const = default;
};

/// The address of this process without secret, UCX addresses and segment.
PeerAddress describe_this_process(std::uint32_t generation);
std::string encode(const PeerAddress& address);
/// Throws CommError if encode() of this version did not make `sealed`. UCX does not check addresses itself, so it must
/// not get damaged ones.
PeerAddress decode_peer_address(const std::string& sealed);
/// The last step of encode().
std::string with_address_checksum(std::string bytes);

}  // namespace distdl::comm
