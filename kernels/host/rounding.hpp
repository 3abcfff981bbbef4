// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::host {

/// Memory for the activations of one layer at a time as floats. Two layers must not use it at the same time.
struct FloatCopies {
  tensor::Buffer x, y, dy, dx;
};

/// Adapts a layer of floats to activations of 16 bits: it widens the input and rounds the output. `input` and `output`
/// are the formats of the layer except for the type. `copies` must outlive the layer.
std::unique_ptr<Layer> make_rounding(std::unique_ptr<Layer> layer, const ActivationFormat& input,
                                     const ActivationFormat& output, FloatCopies& copies);

}  // namespace distdl::kernels::host
