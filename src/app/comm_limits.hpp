// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include <distdl/app/comm_operation.hpp>

namespace distdl::app {

/// What memory and network of this machine allow, measured in the same run: no collective can be faster.
class Limits {
 public:
  /// Collective: measures the network between two nodes, if there are two. Ranks of one node must be as many on each.
  Limits(comm::Communicator& communicator, Workspace& workspace);

  int nodes() const { return nodes_; }
  int local_ranks() const { return local_; }
  /// Bytes per second that all ranks of a node together read and write on `bytes` each. Collective when first asked.
  double memory_rate(std::size_t bytes);
  /// Bytes per second and direction between two nodes, both directions at once; 0 on one node.
  double network_rate() const { return network_rate_; }
  /// The least that `operation` can take. Collective.
  double seconds(Operation operation, std::size_t bytes);

 private:
  double measure_memory(std::size_t bytes);
  double measure_network();

  comm::Communicator& communicator_;
  Workspace& workspace_;
  int nodes_ = 1, local_ = 1;
  double network_rate_ = 0;
  std::map<std::size_t, double> memory_rates_;
};

}  // namespace distdl::app
