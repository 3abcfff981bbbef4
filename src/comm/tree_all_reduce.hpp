// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/comm/fabric.hpp>
#include <distdl/comm/sum_tree.hpp>

namespace distdl::comm {

/// What one call of Communicator::tree_all_reduce was given.
struct TreeSum {
  int leaves = 0;
  std::span<const LeafRange> ranges;
  std::span<const std::span<float>> partials;
  std::span<float> result;
};

/// Communicator::tree_all_reduce over `fabric`. `scratch` may be kept between calls to save its allocation.
///
/// The vector is cut into one slice per rank. Each rank sends its partial sums of a slice to the slice's owner, who
/// adds them along the tree and sends the sum to all. This goes through the slices in segments, of which several are
/// under way at once, so that adding overlaps with sending and the addends are still in the cache. Short vectors are
/// not cut: each rank gets all partial sums and adds them itself, in one hop instead of two.
void tree_all_reduce(Fabric& fabric, const Operation& operation, const TreeSum& sum, const AddFunction& add,
                     std::vector<float>& scratch);

}  // namespace distdl::comm
