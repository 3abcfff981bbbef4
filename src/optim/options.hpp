// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>

namespace distdl::optim {

/// The schedule of the learning rate.
enum class Schedule { constant, cosine, linear, step };
constexpr std::array<Named<Schedule>, 4> choices_of(Schedule) {
  return {{
      {Schedule::constant, "constant", ""},
      {Schedule::cosine, "cosine", "falls along a cosine to optim.final_rate_share of the peak at the last step"},
      {Schedule::linear, "linear", "the same, but linearly"},
      {Schedule::step, "step", "falls at optim.milestones"},
  }};
}

/// The dependence of the peak learning rate on the global batch.
enum class RateScale { none, linear, sqrt };
constexpr std::array<Named<RateScale>, 3> choices_of(RateScale) {
  return {{
      {RateScale::none, "none", ""},
      {RateScale::linear, "linear", "times global batch / optim.base_batch"},
      {RateScale::sqrt, "sqrt", "times the square root of that"},
  }};
}

struct Options {
  std::string name = "sgd";     ///< sgd, adamw, lamb or lars, see docs/optimizers.md
  double learning_rate = 0.05;  ///< the peak of the schedule; typical: 1e-4 to 3e-3 for adamw, 1 to 30 for lars
  OneOf<RateScale> scale_rate = RateScale::none;
  /// With scale_rate: the global batch, in samples, for which learning_rate is the peak.
  std::int64_t base_batch = 256;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;  ///< adamw and lamb: part of the moments that a step keeps
  double epsilon = 1e-8;              ///< adamw and lamb: keeps the quotient of the moments finite
  double trust_coefficient = 1e-3;    ///< lars
  double weight_decay = 0;
  bool decay_one_dimensional = false;  ///< adamw, lamb, lars: also decay norms' weights and biases; sgd decays all
  OneOf<Schedule> schedule = Schedule::cosine;
  std::int64_t warmup_steps = 0;              ///< number of steps over which the rate rises linearly from 0
  double final_rate_share = 0;                ///< final rate of cosine and linear as a part of the peak
  std::vector<std::int64_t> milestones = {};  ///< steps; with schedule = "step" the rate falls there; none: 1/2 and 3/4
  double milestone_factor = 0.1;              ///< factor of the rate at each milestone
  double clip_norm = 0;                       ///< largest Euclidean norm of the gradient; 0: not limited
  double ema_decay = 0;           ///< decay of the parameters' moving average, which is then evaluated; 0: none
  double statistic_weight = 0.1;  ///< part of a running statistic that one step replaces
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("optim.name", options.name, R"("sgd", "adamw", "lamb" or "lars": docs/optimizers.md)");
  visit("optim.learning_rate", options.learning_rate, "peak learning rate for the mean loss over the global batch");
  visit("optim.scale_rate", options.scale_rate, OneOf<RateScale>::help("how the peak depends on the global batch"));
  visit("optim.base_batch", options.base_batch,
        "with optim.scale_rate: the global batch, in samples, for which optim.learning_rate is the peak");
  visit("optim.momentum", options.momentum, "momentum of sgd and lars; 0: none");
  visit("optim.nesterov", options.nesterov, "look-ahead momentum; sgd only");
  visit("optim.beta1", options.beta1, "adamw and lamb: part of the mean of the gradients that each step keeps");
  visit("optim.beta2", options.beta2, "adamw and lamb: part of the mean of their squares that each step keeps");
  visit("optim.epsilon", options.epsilon, "adamw and lamb: added to the root of the mean square");
  visit("optim.trust_coefficient", options.trust_coefficient,
        "lars: length of a step relative to that of the tensor, for a learning rate of 1");
  visit("optim.weight_decay", options.weight_decay,
        "sgd and lars add weight_decay * parameter to each gradient; adamw and lamb add it to each step, before the "
        "learning "
        "rate");
  visit("optim.decay_one_dimensional", options.decay_one_dimensional,
        "adamw, lamb and lars: also decay biases and the weights of norm layers, as sgd always does");
  visit("optim.schedule", options.schedule, OneOf<Schedule>::help("the learning rate after the warm-up"));
  visit("optim.warmup_steps", options.warmup_steps,
        "number of steps at the start during which the rate rises linearly");
  visit("optim.final_rate_share", options.final_rate_share,
        "final rate of \"cosine\" and \"linear\" as a part of the peak");
  visit("optim.milestones", options.milestones,
        "ascending steps after which \"step\" lowers the rate; empty: 1/2 and 3/4 of the run");
  visit("optim.milestone_factor", options.milestone_factor, "factor by which a milestone multiplies the rate");
  visit("optim.clip_norm", options.clip_norm,
        "a gradient with a larger norm over all parameters is scaled down to this norm; 0: never");
  visit("optim.ema_decay", options.ema_decay,
        "evaluate an exponential moving average of the parameters, with this decay per step; 0: evaluate the "
        "parameters");
  visit("optim.statistic_weight", options.statistic_weight,
        "part of a running statistic (batch norm) that each step replaces");
}

/// Throws ConfigError for invalid values.
void check(const Options& options);

}  // namespace distdl::optim
