// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::host {

/// Layers that mainly move dense numbers of any type, and are shared by all CPU backends. Returns nullptr if `spec` is
/// another layer. `rng_key` must outlive the layer.
std::unique_ptr<Layer> make_layer(const LayerSpec& spec, const ActivationFormat& input, tensor::DataType output,
                                  const RngKey& rng_key);

std::unique_ptr<Layer> make_dropout(const Dropout& spec, const ActivationFormat& input, const RngKey& rng_key);

}  // namespace distdl::kernels::host
