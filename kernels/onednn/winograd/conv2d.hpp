// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/onednn/layers.hpp>

namespace distdl::kernels::onednn::winograd {

/// A convolution by Winograd's minimal filtering, forward and both gradients: 3x3 weights of floats, stride 1. Null for
/// any other, and for a shape where oneDNN's direct convolution is estimated to be faster. The bits do not depend on
/// the number of threads.
std::unique_ptr<Layer> make_conv2d(Context& context, const Conv2d& spec, const ActivationFormat& input);

}  // namespace distdl::kernels::onednn::winograd
