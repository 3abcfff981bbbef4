// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// What an optimizer does with a tensor.
struct Treatment {
  bool decays = false;  ///< its weights
  bool adapts = false;  ///< its rate has a trust ratio of its own
  bool operator==(const Treatment&) const = default;
};

/// A stretch of an arena, in elements, that one call updates.
struct Range {
  std::size_t offset = 0, count = 0;
  Treatment treatment;
};

/// Where they lie.
std::vector<kernels::Stretch> stretches_of(const std::vector<Range>& ranges);

/// The tensors of one role. Neighbours of the same treatment make one range, unless they adapt.
std::vector<Range> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role,
                             const std::function<Treatment(const tensor::TensorView&)>& treat);
/// All treated alike: as few ranges as there can be.
std::vector<Range> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role);

/// The parameters for AdamW, LAMB and LARS: tensors of one dimension (biases, norms' weights) neither adapt nor, unless
/// optim.decay_one_dimensional says so, decay. `adapts`: whether the others do.
std::vector<Range> ranges_by_dimensions(const tensor::ArenaLayout& layout, const Options& options, bool adapts);

/// Those whose rate adapts, or those whose rate does not.
std::vector<Range> those_that(bool adapt, const std::vector<Range>& ranges);

}  // namespace distdl::optim
