// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::comm {

/// What a rank publishes about itself before the ranks are connected. World::all_gather_strings() distributes it.
struct PeerAddress {
  std::uint32_t generation = 0;
  std::int32_t pid = 0;
  std::string secret;           ///< of the job, for handshakes; empty except in the address of rank 0
  std::string host;             ///< host name
  std::string memory;           ///< equal where /dev/shm and System V memory are the same
  std::string process_space;    ///< equal where pid means the same process
  std::string network_address;  ///< of the UCX worker, without shared memory's part
  std::string full_address;     ///< of the UCX worker
  std::string segment;          ///< NodeMemory::name()
  bool operator==(const PeerAddress&) const = default;
};

/// Of this process, but for secret, addresses and segment.
PeerAddress describe_this_process(std::uint32_t generation);
std::string encode(const PeerAddress& address);
/// Throws CommError if `sealed` was not made by encode() of this version. UCX does not check addresses itself, so
/// damaged ones must not reach it.
PeerAddress decode_peer_address(const std::string& sealed);
/// What encode() does last.
std::string with_address_checksum(std::string bytes);

}  // namespace distdl::comm
