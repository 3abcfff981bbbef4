// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/cuda/layers/layers.hpp>

namespace distdl::kernels::cuda {

/// Wraps a layer so that it takes and makes activations of the same shapes in other formats. Activations are converted
/// in the device's workspaces. Returns the layer itself where nothing is to be done.
std::unique_ptr<Layer> adapted(SharedDevice device, std::unique_ptr<Layer> layer, const ActivationFormat& layer_input,
                               const ActivationFormat& input, const ActivationFormat& output);
/// The same for a loss.
std::unique_ptr<Loss> adapted(SharedDevice device, std::unique_ptr<Loss> loss, const ActivationFormat& loss_input,
                              const ActivationFormat& predictions);

}  // namespace distdl::kernels::cuda
