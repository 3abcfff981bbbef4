// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/comm/element.hpp>
#include <distdl/tensor/accelerator.hpp>

namespace distdl::comm {

using tensor::ReduceSource;

/// target[i] = the reduction of source[0][i], source[1][i], ... in exactly the order of `reductions`, for all targets
/// and i < count. Unless `scale` is 1, the result is multiplied by it and rounded once more. One source is copied.
/// Sources and targets need no alignment. A target may be one of the sources (same address); no other overlap is
/// allowed. Each addition is rounded to `type`: the bits depend only on order and values, not on this processor's
/// vector length.
///
/// Integers wrap around. Maximum and minimum are those of IEEE 754-2019: NaN if an operand is NaN (with the bits of the
/// left one), -0 less than +0. A sum with NaN is a NaN; of several NaNs it may be any. A scaled value is computed in
/// the next wider type (float64: in float64) and rounded once. Only floating types can be scaled.
///
/// The operands are processed in blocks that stay in the first-level cache: each source is read once and each target is
/// written once. `sources` reduce to exactly one value. Throws InternalError for more than 64 partial results at a
/// time.
void reduce(DataType type, Reduction reduction, std::span<const ReduceSource> sources, std::span<void* const> targets,
            std::size_t count, double scale = 1);

}  // namespace distdl::comm
