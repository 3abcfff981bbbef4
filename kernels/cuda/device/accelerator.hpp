// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/tensor/accelerator.hpp>

namespace distdl::kernels::cuda {

/// Streams of their own beside the device's, which is the caller's, so that layers are computed while gradients travel.
std::shared_ptr<tensor::Accelerator> make_accelerator(const SharedDevice& device);

}  // namespace distdl::kernels::cuda
