// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
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
  /// For the calls of apply() that follow.
  virtual void prepare(const Now& now) = 0;
  /// Gives the backend the same work each time, so that it may be recorded.
  virtual void apply(const Arenas& arenas) = 0;
};

/// A row of the table of optimizers, rules.cpp.
struct KnownRule {
  std::string name;                  ///< of optim.name
  std::vector<std::string> moments;  ///< their names; they begin as zeros
  /// The backend must outlive the rule; options and layout need not.
  std::unique_ptr<Rule> (*make)(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);
};
std::span<const KnownRule> known_rules();
/// Throws ConfigError if there is none of this name.
const KnownRule& find_rule(const std::string& name);

}  // namespace distdl::optim
