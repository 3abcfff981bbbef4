// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace distdl::comm {

/// The transports of UCX on this host.
struct Transports {
  std::string ucx_version;
  std::vector<std::string> names;  ///< "tcp/eth0", "posix/memory", "rc_mlx5/mlx5_0:1", ...
  bool rdma = false;               ///< a network that bypasses TCP
};

/// Throws CommError if UCX cannot be used.
Transports available_transports();

}  // namespace distdl::comm
