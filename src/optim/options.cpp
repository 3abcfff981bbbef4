// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/optim/rule.hpp>

namespace distdl::optim {
namespace {
/// A share of what was that a step leaves.
void check_share(const char* key, double value) {
  require(value >= 0 && value < 1, "{} is {}, but must be in [0, 1)", key, value);
}

void check_not_negative(const char* key, double value) {
  require(value >= 0 && std::isfinite(value), "{} is {}, but must not be negative", key, value);
}

void check_schedule(const Options& options) {
  require(options.learning_rate > 0 && std::isfinite(options.learning_rate),
          "optim.learning_rate is {}, but must be above 0", options.learning_rate);
  require(options.base_batch >= 1, "optim.base_batch is {}, but must be at least 1", options.base_batch);
  require(options.warmup_steps >= 0, "optim.warmup_steps is {}, but must not be negative", options.warmup_steps);
  require(options.final_rate_share >= 0 && options.final_rate_share <= 1,
          "optim.final_rate_share is {}, but must be in [0, 1]", options.final_rate_share);
  const auto& milestones = options.milestones;
  require(milestones.empty() || milestones.front() >= 1, "optim.milestones begin with step {}, but must be above 0",
          milestones.empty() ? 0 : milestones.front());
  require(std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>()) == milestones.end(),
          "optim.milestones are {}, but must be ascending", fmt::join(milestones, ", "));
  require(milestones.empty() || options.schedule == Schedule::step,
          "optim.milestones are set, but optim.schedule is \"{}\" and must be \"step\"", options.schedule);
  require(options.milestone_factor > 0 && options.milestone_factor <= 1,
          "optim.milestone_factor is {}, but must be in (0, 1]", options.milestone_factor);
}
}  // namespace

void check(const Options& options) {
  find_rule(options.name);  // throws if there is none
  check_schedule(options);
  check_share("optim.momentum", options.momentum);
  require(!options.nesterov || options.name == "sgd", "optim.nesterov needs optim.name = \"sgd\", not \"{}\"",
          options.name);
  check_share("optim.beta1", options.beta1);
  check_share("optim.beta2", options.beta2);
  check_share("optim.ema_decay", options.ema_decay);
  require(options.epsilon >= 1e-30 && options.epsilon <= 1, "optim.epsilon is {}, but must be between 1e-30 and 1",
          options.epsilon);
  require(options.trust_coefficient > 0 && std::isfinite(options.trust_coefficient),
          "optim.trust_coefficient is {}, but must be above 0", options.trust_coefficient);
  check_not_negative("optim.weight_decay", options.weight_decay);
  check_not_negative("optim.clip_norm", options.clip_norm);
  require(options.statistic_weight > 0 && options.statistic_weight <= 1,
          "optim.statistic_weight is {}, but must be in (0, 1]", options.statistic_weight);
}

}  // namespace distdl::optim
