// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {

/// What is wrong with a tensor group that lies on several nodes, and what to do: its ranks sum in each layer, and such
/// sums are several times slower between nodes. Of several groups the first is named. Empty if each lies on one node.
/// `node_of`: the name of a rank's node.
std::string divided_tensor_group(const Degrees& degrees, const std::function<std::string(int rank)>& node_of);

/// The same of nodes that have so many ranks each, which are called "node 0", "node 1" ...
std::string divided_tensor_group(const Degrees& degrees, int ranks_per_node);

}  // namespace distdl::parallel
