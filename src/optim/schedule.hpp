// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/base/ids.hpp>
#include <distdl/optim/options.hpp>

namespace distdl::optim {

/// The peak rate of a run whose steps have `global_batch` samples. optim.scale_rate = "linear" is the rule of Goyal et
/// al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017. "sqrt" keeps the variance of a step, and is
/// used by You et al. for LAMB.
double peak_rate(const Options& options, std::int64_t global_batch);

/// The rate of the step that follows `done` steps in a run of `total` steps.
double learning_rate(const Options& options, Step done, Step total, std::int64_t global_batch);

}  // namespace distdl::optim
