// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// Divides the arenas among `ranks` ranks: each updates its shard alone, and keeps the moments of it only. The shards
/// are ascending, without gaps, and as equal in size as the borders permit. A border is between two tensors, or, where
/// the optimizer does not adapt to whole tensors, between two rows of one, on a 64-byte line. A shard may be empty.
/// Throws ConfigError if there is no optimizer of this name.
std::vector<Elements> shards_of(const Options& options, const tensor::ArenaLayout& layout, int ranks);

}  // namespace distdl::optim
