// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/comm/element.hpp>
#include <distdl/tensor/accelerator.hpp>

namespace distdl::comm {

using tensor::ReduceSource;

/// target[i] = the reduction of source[0][i], source[1][i], ... in exactly the order that `reductions` tells, for all
/// targets and i < count; times `scale` (rounded once more) unless that is 1. One source is a copy. Sources and targets
/// need no alignment; a target may be one of the sources (same address), no other overlap is allowed. Each addition is
/// rounded to `type`: the bits depend on order and values alone, not on this processor's vector length.
///
/// Values: integers wrap around. Maximum and minimum are those of IEEE 754-2019: NaN where an operand is (the left
/// one's bits), -0 less than +0. A sum with NaN is a NaN, of several NaNs any one. A scaled value is computed in the
/// next wider type (float64: in float64) and rounded once; only floating types can be scaled.
///
/// Goes through the operands in blocks that stay in the first-level cache: each is read once and each target is written
/// once. `sources` reduce to exactly one value. Throws InternalError for more than 64 partial results at a time.
void reduce(DataType type, Reduction reduction, std::span<const ReduceSource> sources, std::span<void* const> targets,
            std::size_t count, double scale = 1);

}  // namespace distdl::comm
