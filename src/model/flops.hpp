// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/model/description.hpp>

namespace distdl::model {

/// Floating-point operations of a model's passes, as kernels::flops_of() counts them.
struct ModelFlops {
  double forward = 0, backward = 0;
  double total() const { return forward + backward; }
};

/// Returns the operations of a microbatch of so many samples. The gradient of the samples is not counted: layers that
/// read them compute the gradients of their weights only. A divided model has as many as the whole one.
ModelFlops flops_of(const Description& model, std::int64_t samples);

}  // namespace distdl::model
