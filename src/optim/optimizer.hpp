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
#include <distdl/optim/options.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/optim/sums.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// An arena of optimizer state, with the layout of the parameters.
struct StateArena {
  enum class Kind {
    moment,   ///< begins as zeros; nothing for statistics
    average,  ///< of the parameters, statistics included; begins as they do
  };
  std::string name;  ///< "momentum": what its tensors' names in a checkpoint begin with
  Kind kind = Kind::moment;
};

/// What an optimizer keeps: moments first, then, with optim.ema_decay, "average".
std::vector<StateArena> state_of(const Options& options);

/// The position of a step within the run.
struct StepInfo {
  double rate = 0;            ///< learning rate of this step
  std::int64_t step = 0;      ///< steps done before it
  std::int64_t updates = 0;   ///< of these, those that the moments have seen
  int microbatches = 1;       ///< of this step
  double gradient_scale = 1;  ///< the gradient counts so many times, in its norm too; statistics are left alone
};

/// A whole optimizer step over arenas: the gradient is clipped, parameters follow their rule, statistics become
/// running averages, and the parameters' average follows them. What it makes depends on its arguments only.
class Optimizer {
 public:
  /// Throws ConfigError, see check(). `backend` must outlive the optimizer, `layout` need not.
  Optimizer(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend);

  /// The arenas of its state.
  std::vector<StateArena> state() const { return state_of(options_); }

  /// Whether no gradient has overflowed. Waits for the backend.
  bool is_finite(const float* gradients);
  /// For apply(). Returns the gradient's norm, scaled, before clipping, where it was measured: with optim.clip_norm.
  std::optional<double> prepare(const float* gradients, const StepInfo& now);
  /// One step. With the same arenas it gives the backend the same work each time, so that it may be recorded.
  void apply(const Arenas& arenas);

 private:
  double gradient_norm(const float* gradients);

  Options options_;
  kernels::Backend& backend_;
  std::unique_ptr<Rule> rule_;
  std::vector<kernels::ArenaRange> ranges_, statistics_;  ///< of parameters, of statistics
  std::array<kernels::ArenaRange, 1> whole_;              ///< the whole arena
  kernels::DeviceValue<kernels::AverageStep> statistics_step_, average_step_;
  Sums squares_;  ///< of the gradients of each range
};

}  // namespace distdl::optim
