// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// The tensors of one role. Neighbours of the same treatment make one stretch, unless they adapt.
std::vector<kernels::Stretch> stretches_of(const tensor::ArenaLayout& layout, tensor::Role role,
                                           const std::function<kernels::Treatment(const tensor::TensorView&)>& treat);
/// All treated alike: as few stretches as there can be.
std::vector<kernels::Stretch> stretches_of(const tensor::ArenaLayout& layout, tensor::Role role);

/// The parameters for AdamW, LAMB and LARS: tensors of one dimension (biases, norms' weights) neither adapt nor, unless
/// optim.decay_one_dimensional says so, decay. `adapts`: whether the others do.
std::vector<kernels::Stretch> stretches_by_dimensions(const tensor::ArenaLayout& layout, const Options& options,
                                                      bool adapts);

}  // namespace distdl::optim
