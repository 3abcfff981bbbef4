// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/cuda/layers/layers.hpp>

namespace distdl::kernels::cuda {

/// Wraps a layer so that it takes and returns activations of the same shapes in other formats. Activations are
/// converted in the device's workspaces. Returns the layer itself if no conversion is needed.
std::unique_ptr<Layer> adapted(SharedDevice device, std::unique_ptr<Layer> layer, const ActivationFormat& layer_input,
                               const ActivationFormat& input, const ActivationFormat& output);
/// Wraps a loss in the same way.
std::unique_ptr<Loss> adapted(SharedDevice device, std::unique_ptr<Loss> loss, const ActivationFormat& loss_input,
                              const ActivationFormat& predictions);

}  // namespace distdl::kernels::cuda
