// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/app/bench/comm_operation.hpp>

namespace distdl::app {

/// The limits of this machine's memory and network: no collective can be faster. The speed of a machine drifts, so the
/// limits are measured in turn with the collectives. All functions that measure are collective.
class Limits {
 public:
  /// A measurement takes about `seconds`, or longer if bytes are moved very slowly. Every node must have the same
  /// number of ranks.
  Limits(comm::Communicator& communicator, Workspace& workspace, double seconds);

  int nodes() const { return static_cast<int>(members_.size()); }
  /// Measures the bytes per second that all ranks of a node together read and write now, with `bytes` per rank.
  double memory_rate(std::size_t bytes);
  /// Measures the bytes per second and direction between two nodes with both directions busy; 0 on one node.
  double network_rate();
  /// Measures the least time that `operation` can take now.
  double least_seconds(Operation operation, std::size_t bytes);

 private:
  template <class Work>
  double best(const Work& work);
  double exchange_rate(std::size_t pairs);

  comm::Communicator& communicator_;
  Workspace& workspace_;
  double seconds_;
  tensor::Buffer out_, in_;                 ///< used only with several nodes
  std::vector<std::vector<Rank>> members_;  ///< ranks of each node
};

}  // namespace distdl::app
