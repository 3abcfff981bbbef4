// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/model/stage_plan.hpp>

namespace distdl::model {

/// Blocks of memory for the gradients of all outputs. Outputs whose gradients are not needed at the same time share
/// one.
struct GradientMemory {
  std::vector<std::size_t> bytes;  ///< bytes of each block
  std::vector<int> block_of;       ///< block of each stage
};

/// Each gradient of an output lives from the first layer that writes it, seen from the end, to the layer that made the
/// output. A gradient that is only handed on to the layer that `plus` names, or turned into the gradient of the input
/// in place, stays where it is. `in_pieces`: all gradients stay until the gradients of the weights are computed.
GradientMemory plan_gradient_memory(const StagePlan& plan, bool in_pieces);

}  // namespace distdl::model
