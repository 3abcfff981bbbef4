// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <distdl/kernels/backend.hpp>

namespace distdl::model {

/// Sets addends[0] to the sum of these activations, which are those of this network's branches, and of the other
/// ranks'. Collective. The memory of the others may change.
using SumShards = std::function<void(const kernels::ActivationFormat&, std::span<void* const> addends)>;
/// The values at `all` are `count` for each shard, or for each chunk in the order of their leaves, of which this rank
/// has written its own. Writes the others. Collective.
using Gather = std::function<void(tensor::DataType type, void* all, std::size_t count)>;

/// The collective operations of ranks that have some branches of a model each.
struct Exchange {
  SumShards sum;
  Gather gather;  ///< for a model whose head is divided
  /// The sum of addends as in SumShards, of which each rank gets the rows that it has, of row_counts() each slice.
  std::function<void(const kernels::ActivationFormat&, std::span<void* const> addends, void* rows,
                     std::span<const std::size_t> counts)>
      sum_to_rows;
  /// Writes to `all` the rows of all slices, of which this rank has those at `rows`, which may be their place in
  /// `all`.
  std::function<void(tensor::DataType type, const void* rows, void* all, std::span<const std::size_t> counts)>
      gather_rows;
};

}  // namespace distdl::model
