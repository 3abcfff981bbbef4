// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// Throws ConfigError for values that make no sense.
void check(const Options& options);

/// The rate of the step that follows `done` steps, of a run of `total` steps.
double learning_rate(const Options& options, Step done, Step total);

/// Stochastic gradient descent over arena ranges: neighbouring tensors of one role are updated in one call.
class Sgd {
 public:
  /// `layout` need not outlive the optimizer.
  Sgd(const Options& options, const tensor::ArenaLayout& layout);

  /// One step. Arenas are in the backend's memory. `gradients` holds the gradient of the mean loss, and for statistics
  /// the sum of the values that `observations` microbatches saw.
  void update(kernels::Backend& backend, float* parameters, float* momentum, const float* gradients, double rate,
              int observations) const;

 private:
  struct Range {
    tensor::Role role;
    std::size_t offset, count;
  };
  Options options_;
  std::vector<Range> ranges_;
};

}  // namespace distdl::optim
