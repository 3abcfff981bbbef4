// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <distdl/comm/device/device_access.hpp>
#include <distdl/comm/device/device_transport.hpp>
#include <distdl/comm/execution/node_ranks.hpp>
#include <distdl/comm/schedule.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// A collective whose schedules are made: calls that differ in nothing but addresses share one.
struct CollectivePlan {
  Problem problem;
  Choice choice;
  Schedule schedule;
  std::optional<Schedule> staged;  ///< for the case that some rank's memory is not shared
  bool uses_node_ranks = false;    ///< uses control blocks; equal on all ranks of the node
  bool needs_arrival = false;      ///< accesses other ranks' inputs and outputs, if they are shared
  std::uint64_t fingerprint = 0;   ///< of problem and element type; equal on ranks that call the same operation
};

/// One communicator's part of a vendor's library.
struct LibraryAccess {
  std::unique_ptr<DeviceTransport> transport;
  bool also_sums = false;            ///< of Order::deterministic, whose order is then the library's
  std::uint64_t next = 0, turn = 0;  ///< numbers of the next operation, and of the one that may enter
};

/// What the operations of one communicator share.
struct Group {
  Group(Fabric& the_fabric, std::uint8_t the_id, std::vector<Rank> ranks, Rank self);

  Fabric& fabric;
  std::uint8_t id;                         ///< in the tags of its messages
  int rank;                                ///< of this process among members
  std::vector<Rank> members;               ///< world rank of each rank
  std::vector<int> nodes;                  ///< of each rank: equal where ranks share memory
  std::vector<int> local_of;               ///< place of each rank in `node_ranks`, -1 on other nodes
  std::optional<NodeRanks> node_ranks;     ///< once they are attached
  std::shared_ptr<DeviceAccess> device;    ///< if there is one
  std::unique_ptr<LibraryAccess> library;  ///< if it does some of the collectives there; goes before the device
  std::uint32_t sequence = 0;              ///< of collectives
  int spins = 1000;                        ///< of a wait before it gives way; few where ranks outnumber processors
};

}  // namespace distdl::comm
