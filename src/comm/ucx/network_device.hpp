// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

namespace distdl::comm {

/// UCX's names for the network interface `interface`: the interface itself for TCP and, if it belongs to an RDMA
/// device, that device's port, such as "ib0,mlx5_0:1". A name with a colon is a UCX device and is returned unchanged.
/// Throws ConfigError that lists the existing interfaces if this host has none of that name.
std::string ucx_devices_of(const std::string& interface);

/// Whether UCX finds an RDMA device for comm.interface; "auto" means any device of this host.
bool may_use_rdma(const std::string& interface);

/// The network interfaces that UCX may use for TCP: those that are up, have an address, and are in /sys.
std::set<std::string> tcp_interfaces();

/// Possible problems of this host's networks, with remedies, for the case that UCX cannot reach another host.
std::string why_unreachable();

}  // namespace distdl::comm
