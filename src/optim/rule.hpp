// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// What a step reads and writes: all in the backend's memory and in the layout of the parameters.
struct Arenas {
  float* parameters = nullptr;
  std::array<float*, 2> moments{};   ///< in the order of Optimizer::state()
  float* average = nullptr;          ///< of the parameters, if there is one
  const float* gradients = nullptr;  ///< of the mean loss; for statistics the sum of what the microbatches saw
};

/// How one optimizer changes parameters and moments. Statistics, clipping and averages are handled by Optimizer.
class Rule {
 public:
  struct Now {
    double rate;           ///< learning rate
    float gradient_scale;  ///< the gradient counts so many times
    std::int64_t update;   ///< 1 for the first one since the moments were zero
  };
  virtual ~Rule() = default;
  /// Names of the moments that it keeps, at most two. They begin as zeros.
  virtual std::vector<std::string> moments() const = 0;
  /// For the calls of apply() that follow.
  virtual void prepare(const Now& now) = 0;
  /// Gives the backend the same work each time, so that it may be recorded.
  virtual void apply(const Arenas& arenas) = 0;
};

// The backend must outlive the rule; options and layout need not.
std::unique_ptr<Rule> make_sgd(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);
std::unique_ptr<Rule> make_lars(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);
std::unique_ptr<Rule> make_adamw(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);
std::unique_ptr<Rule> make_lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);

}  // namespace distdl::optim
