// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {

/// Describes the first tensor group that lies on several nodes, and what to do about it. Its ranks sum in each layer,
/// and such sums are several times slower between nodes. Empty if each group lies on one node. `node_of`: the name of a
/// rank's node.
std::string divided_tensor_group(const Degrees& degrees, const std::function<std::string(int rank)>& node_of);

/// Describes it for nodes that have so many ranks each and are called "node 0", "node 1" ...
std::string divided_tensor_group(const Degrees& degrees, int ranks_per_node);

}  // namespace distdl::parallel
