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

/// A collective with its schedules. Calls that differ only in addresses share one.
struct CollectivePlan {
  Problem problem;
  Choice choice;
  Schedule schedule;
  std::optional<Schedule> staged;    ///< used if some rank's memory is not shared
  std::optional<Schedule> disjoint;  ///< used if there is one and no rank's output is its input
  bool uses_node_ranks = false;      ///< uses control blocks; equal on all ranks of the node
  bool needs_arrival = false;        ///< accesses other ranks' inputs and outputs, if they are shared
  std::uint64_t fingerprint = 0;     ///< hash of problem and element type; equal on ranks that call the same operation
};

/// The part of a vendor's library that belongs to one communicator.
struct LibraryAccess {
  std::unique_ptr<DeviceTransport> transport;
  bool also_sums = false;            ///< also sums of Order::deterministic, whose order is then that of the library
  std::uint64_t next = 0, turn = 0;  ///< numbers of the next operation and of the one that may begin
};

/// The data that the operations of one communicator share.
struct Group {
  Group(Fabric& the_fabric, std::uint8_t the_id, std::vector<Rank> ranks, Rank self);

  Fabric& fabric;
  std::uint8_t id;                       ///< part of the tags of its messages
  int rank;                              ///< this process's rank among the members
  std::vector<Rank> members;             ///< world rank of each rank
  std::vector<int> nodes;                ///< node of each rank: equal for ranks that share memory
  std::vector<int> local_of;             ///< index of each rank in `node_ranks`, -1 on other nodes
  std::optional<NodeRanks> node_ranks;   ///< empty until they are attached
  std::shared_ptr<DeviceAccess> device;  ///< if there is one
  /// Null unless it performs some of the collectives; destroyed before the device.
  std::unique_ptr<LibraryAccess> library;
  std::uint32_t sequence = 0;  ///< number of the last collective
  int spins = 1000;            ///< polls of a wait before it yields; few if there are more ranks than processors
};

}  // namespace distdl::comm
