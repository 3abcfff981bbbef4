// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>

/// Losses on the CPU, summed in double. The caller has checked specs and shapes.
namespace distdl::kernels::host {

std::unique_ptr<Loss> make_cross_entropy(const CrossEntropy& spec, const ActivationFormat& logits);
/// Throws ConfigError for logits that are not dense.
std::unique_ptr<SlicedLoss> make_sliced_cross_entropy(const CrossEntropy& spec, const ActivationFormat& logits,
                                                      const ClassSlice& slice);
std::unique_ptr<Loss> make_mean_squared_error(const ActivationFormat& predictions);

}  // namespace distdl::kernels::host
