// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// The tensors of one role as ranges. Adjacent tensors with equal options form one range, unless they adapt.
std::vector<kernels::ArenaRange> ranges_of(
    const tensor::ArenaLayout& layout, tensor::Role role,
    const std::function<kernels::GroupOptions(const tensor::TensorView&)>& treat);
/// Like above with equal options for all tensors, so that there are as few ranges as possible.
std::vector<kernels::ArenaRange> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role);

/// The parameter ranges for AdamW, LAMB and LARS. Tensors of one dimension (biases, norms' weights) do not adapt; they
/// decay only if optim.decay_one_dimensional is set. `adapts`: whether the other tensors adapt.
std::vector<kernels::ArenaRange> ranges_by_dimensions(const tensor::ArenaLayout& layout, const Options& options,
                                                      bool adapts);

}  // namespace distdl::optim
