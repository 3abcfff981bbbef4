// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/model/description.hpp>

namespace distdl::model {

/// Returns the divisor of `number` that is nearest to `wanted`.
std::int64_t nearest_divisor(std::int64_t number, std::int64_t wanted);

/// Returns the model as a fixed list of shards. Each linear layer or convolution with Split::outputs begins that many
/// branches, each with some of its outputs (whole heads, where attention follows). The next one with Split::inputs ends
/// them. The layers between them are divided alike. A last layer with Split::outputs is not ended: its branches are
/// slices of the classes of a cross-entropy. Each shard of an embedding with Split::entries has the rows of its slice.
/// Slice s of v classes or rows has [v s / T, v (s + 1) / T). All else exists once. Shoeybi et al., "Megatron-LM",
/// 2019. For sequences, the gradients of norms that exist once are sums over as many slices of the rows, see
/// Description::rows.
///
/// The number of shards changes the order of additions, and so the bits of a result. One shard: the model as it is.
/// Throws ConfigError if the model or one of its sizes cannot be divided so; it names the nearest number that can be.
Description divide(const Description& model, std::int64_t shards);

/// Returns a rank's part of a divided model that has `count` of its branches, from `first` on: these, all layers that
/// exist once, and of its rows the slices of these numbers.
Description branches_of(const Description& divided, std::size_t first, std::size_t count);

}  // namespace distdl::model
