// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// Elements of the arenas that each rank updates, and whose moments it keeps.
struct Shards {
  std::vector<Elements> parts;            ///< parts of the arenas; each is divided among all ranks
  std::vector<std::vector<Elements>> of;  ///< for each rank, its slice of each part; ascending by rank, without gaps
  /// Returns the number of elements in each rank's slice of a part.
  std::vector<std::size_t> counts(std::size_t part) const;
};

/// Where the slices of ranks may begin.
enum class Borders {
  of_rows,    ///< between two tensors, or between two rows of one, on a 64-byte line
  of_units,   ///< likewise, on a multiple of compression::kMostElements elements of the tensor
  of_tensors  ///< between two tensors; then there is one part
};

/// Divides each part of the arenas among `ranks` ranks, as equally as the borders permit, or in proportion to
/// `weights`: in all parts together, a border is off by no more than in one. A part ends between two tensors. Without
/// any, or with Borders::of_tensors, there is one. A slice may be empty. `weights`: of the ranks, above 0; empty: all
/// are equal. With Borders::of_units, what is in such units lies on one rank, however the arenas are divided.
Shards shards_of(Borders borders, const tensor::ArenaLayout& layout, int ranks, std::vector<Elements> parts,
                 const std::vector<int>& weights = {});
/// Divides with Borders::of_tensors where the optimizer adapts to whole tensors, else with Borders::of_rows. Throws
/// ConfigError if there is no optimizer of this name.
Shards shards_of(const Options& options, const tensor::ArenaLayout& layout, int ranks, std::vector<Elements> parts,
                 const std::vector<int>& weights = {});

/// Gives the memory of an arena back that is not in the slices of a rank, which ascend or descend. See
/// tensor::discard().
void discard_others(std::span<float> arena, std::span<const Elements> shard);

/// Where the slice of a part begins in memory that has only the elements of one rank's slices.
std::size_t place_in(std::span<const Elements> shard, std::size_t part);

}  // namespace distdl::optim
