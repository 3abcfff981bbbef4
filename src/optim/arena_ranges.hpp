// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// The tensors of one role as ranges. Adjacent tensors with equal options make one range, unless they adapt.
std::vector<kernels::ArenaRange> ranges_of(
    const tensor::ArenaLayout& layout, tensor::Role role,
    const std::function<kernels::GroupOptions(const tensor::TensorView&)>& treat);
/// The same with equal options for all tensors: as few ranges as possible.
std::vector<kernels::ArenaRange> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role);

/// The parameters for AdamW, LAMB and LARS: tensors of one dimension (biases, norms' weights) neither adapt nor, unless
/// optim.decay_one_dimensional says so, decay. `adapts`: whether the others do.
std::vector<kernels::ArenaRange> ranges_by_dimensions(const tensor::ArenaLayout& layout, const Options& options,
                                                      bool adapts);

}  // namespace distdl::optim
