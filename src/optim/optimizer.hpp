// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/device_value.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/optim/sums.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// An arena of optimizer state, with the layout of the parameters.
struct StateArena {
  enum class Kind {
    moment,   ///< begins with zeros; has no values for statistics
    average,  ///< average of the parameters including statistics; begins with their values
  };
  std::string name;  ///< "momentum": what its tensors' names in a checkpoint begin with
  Kind kind = Kind::moment;
};

/// The state of an optimizer: first the moments, then, with optim.ema_decay, "average".
std::vector<StateArena> state_of(const Options& options);

/// The position of a step within the run.
struct StepInfo {
  double rate = 0;                ///< learning rate of this step
  std::int64_t step = 0;          ///< number of steps done before it
  std::int64_t updates = 0;       ///< number of these steps that updated the moments
  int microbatches = 1;           ///< number in this step
  double gradient_scale = 1;      ///< factor of the gradient, also in its norm; does not apply to statistics
  std::int64_t held_updates = 0;  ///< number of these updates that left the second moments as they were
  bool holds_squares = false;     ///< so does this step
};

/// An optimizer step over arenas: the gradient is clipped, parameters are updated by their rule, statistics become
/// running averages, and the average of the parameters is updated. The result depends only on the arguments.
class Optimizer {
 public:
  /// Throws ConfigError, see check(). `backend` must outlive the optimizer; `layout` need not.
  Optimizer(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);

  /// The arenas of its state.
  std::vector<StateArena> state() const { return state_of(options_); }

  /// Whether no gradient has overflowed. Waits for the backend.
  bool is_finite(const float* gradients);
  /// Prepares apply(). With optim.clip_norm, returns the scaled norm of the gradient before clipping. `squares`: the
  /// sum of the squares of all gradients, if other ranks have some of them.
  std::optional<double> prepare(const float* gradients, const StepInfo& now, std::optional<double> squares = {});
  /// Does one step. With the same arenas, the backend gets the same work each time, so that it can be recorded.
  void apply(const Arenas& arenas) { apply(arenas, all()); }
  /// The part of a step that changes these elements: whole tensors, or those that shards_of() has cut. All parts
  /// together, in any order, make the same step. Without Arenas::average, the average is left to average().
  void apply(const Arenas& arenas, const Elements& elements);
  /// The part of apply() that updates the average, if there is one: for elements that another rank has updated.
  void average(const Arenas& arenas, const Elements& elements);
  /// For what Rule says of tensors of which several ranks have some elements each.
  Rule& rule() { return *rule_; }
  /// All elements of an arena.
  Elements all() const { return {0, size_}; }
  /// Whether prepare() needs the whole gradient.
  bool needs_norm() const { return options_.clip_norm > 0; }

 private:
  double gradient_norm(const float* gradients);

  Options options_;
  kernels::Backend& backend_;
  std::unique_ptr<Rule> rule_;
  std::size_t size_;               ///< floats of an arena
  CutRanges ranges_, statistics_;  ///< ranges of parameters and of statistics
  CutRanges whole_;                ///< the whole arena as one range
  kernels::DeviceValue<kernels::AverageStep> statistics_step_, average_step_;
  Sums squares_;  ///< sums of squares of the gradients of each range
};

}  // namespace distdl::optim
