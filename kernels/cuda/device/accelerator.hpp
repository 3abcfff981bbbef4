// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/tensor/accelerator.hpp>

namespace distdl::kernels::cuda {

/// An accelerator with its own streams in addition to that of the device, so that layers are computed while gradients
/// are sent.
std::shared_ptr<tensor::Accelerator> make_accelerator(const SharedDevice& device);

}  // namespace distdl::kernels::cuda
