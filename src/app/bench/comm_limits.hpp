// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/app/bench/comm_operation.hpp>

namespace distdl::app {

/// What memory and network of this machine allow: no collective can be faster. A machine's speed drifts, so this is
/// measured beside what it limits, in turn with it. All functions that measure are collective.
class Limits {
 public:
  /// A measurement takes about `seconds`, longer where so few bytes per second can be moved. Ranks of one node must be
  /// as many on each.
  Limits(comm::Communicator& communicator, Workspace& workspace, double seconds);

  int nodes() const { return static_cast<int>(members_.size()); }
  /// Measures the bytes per second that all ranks of a node together read and write now, on `bytes` each.
  double memory_rate(std::size_t bytes);
  /// Measures the bytes per second and direction between two nodes, both directions at once; 0 on one node.
  double network_rate();
  /// Measures the least that `operation` can take now.
  double least_seconds(Operation operation, std::size_t bytes);

 private:
  template <class Work>
  double best(const Work& work);
  double exchange_rate(std::size_t pairs);

  comm::Communicator& communicator_;
  Workspace& workspace_;
  double seconds_;
  tensor::Buffer out_, in_;                 ///< with other nodes only
  std::vector<std::vector<Rank>> members_;  ///< of each node
};

}  // namespace distdl::app
