// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

namespace distdl::comm {

/// UCX's names for the network interface `interface`: itself for TCP and, where an RDMA device is behind it, that
/// device's port, e.g. "ib0,mlx5_0:1". A name with a colon is taken for a UCX device and returned as it is.
/// Throws ConfigError, naming the interfaces there are, if this host has none of that name.
std::string ucx_devices_of(const std::string& interface);

/// Whether UCX finds an RDMA device behind comm.interface; "auto" means any of this host.
bool may_use_rdma(const std::string& interface);

/// The network interfaces that UCX uses for TCP, if it may use all: those that are up, have an address, and are in
/// /sys.
std::set<std::string> tcp_interfaces();

/// What may be wrong with this host's networks, and what to do, where UCX finds no way to another host.
std::string why_unreachable();

}  // namespace distdl::comm
