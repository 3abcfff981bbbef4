// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// The arrays that a step reads and writes, in the backend's memory and in the layout of the parameters.
struct Arenas {
  float* parameters = nullptr;
  std::array<float*, 2> moments{};  ///< in the order of Optimizer::state(); they begin with the element `first`
  std::size_t first = 0;
  float* average = nullptr;  ///< average of the parameters; nullptr: none
  /// Gradients of the mean loss; for statistics, the sum of the microbatches' observed values.
  const float* gradients = nullptr;
};

/// The update of parameters and moments by one optimizer. Optimizer handles statistics, clipping and averages.
class Rule {
 public:
  struct Now {
    double rate;           ///< learning rate
    float gradient_scale;  ///< factor of the gradient
    std::int64_t update;   ///< number of the update since the moments were zero, from 1
    std::int64_t squares;  ///< number of the newest update of the second moments, where there are some
    bool holds_squares;    ///< it is an earlier one: this update leaves them as they are
  };
  virtual ~Rule() = default;
  /// Sets the values for the following calls of apply().
  virtual void prepare(const Now& now) = 0;
  /// Updates these elements. With the same arguments the backend gets the same work each time, so that it can be
  /// recorded.
  virtual void apply(const Arenas& arenas, const Elements& elements) = 0;

  // For a rule that adapts, and tensors of which several ranks have some elements each: after spread(), each step calls
  // begin_terms() for all elements that are here, adds up the terms over the ranks, and calls set_rates(), all before
  // apply(). The moments in `arenas` are those of all named elements.
  virtual void spread(std::vector<SpreadTensors::Own> tensors) = 0;
  virtual void begin_terms(const Arenas& arenas, const Elements& elements) = 0;
  /// Sets sums[i], in the backend's memory, to the sum of the terms of range i.
  virtual void add_up_terms(const Arenas& arenas, std::span<const kernels::ArenaRange> ranges, double* sums) = 0;
  /// The terms of the elements of a range, in host memory.
  virtual void list_terms(const Arenas& arenas, const kernels::ArenaRange& range, std::span<double> terms) = 0;
  /// The sums of squared parameters and of terms of each tensor, by their number.
  virtual void set_rates(std::span<const double> parameters, std::span<const double> terms) = 0;
};

/// A row of the table of optimizers in rules.cpp.
struct KnownRule {
  std::string name;                  ///< value of optim.name
  std::vector<std::string> moments;  ///< names of the moments, which begin with zeros
  bool adapts;                       ///< the step of an element may depend on all elements of its tensor
  /// The backend must outlive the rule; options and layout need not.
  std::unique_ptr<Rule> (*make)(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);
};
std::span<const KnownRule> known_rules();
/// Throws ConfigError if there is no rule of this name.
const KnownRule& find_rule(const std::string& name);

}  // namespace distdl::optim
