// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::host {

/// Where one layer after the other has its activations as floats. Must not be used by two at once.
struct FloatCopies {
  tensor::Buffer x, y, dy, dx;
};

/// A layer of floats for activations of 16 bits: widens what comes in, rounds what goes out. `input` and `output` are
/// the formats of the layer's but for the type. `copies` must outlive the layer.
std::unique_ptr<Layer> make_rounding(std::unique_ptr<Layer> layer, const ActivationFormat& input,
                                     const ActivationFormat& output, FloatCopies& copies);

}  // namespace distdl::kernels::host
