// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include <distdl/base/errors.hpp>
#include <distdl/optim/sgd.hpp>

namespace distdl::optim {

void check(const Options& options) {
  require(options.learning_rate > 0, "optim.learning_rate is {}, but must be above 0", options.learning_rate);
  require(options.momentum >= 0 && options.momentum < 1, "optim.momentum is {}, but must be in [0, 1)",
          options.momentum);
  require(options.weight_decay >= 0, "optim.weight_decay is {}, but must not be negative", options.weight_decay);
  require(options.warmup_steps >= 0, "optim.warmup_steps is {}, but must not be negative", options.warmup_steps);
  require(options.statistic_weight > 0 && options.statistic_weight <= 1,
          "optim.statistic_weight is {}, but must be in (0, 1]", options.statistic_weight);
  require(options.schedule == "constant" || options.schedule == "cosine" || options.schedule == "step",
          "optim.schedule is \"{}\"; known are \"constant\", \"cosine\" and \"step\"", options.schedule);
}

double learning_rate(const Options& options, Step done, Step total) {
  double peak = options.learning_rate;
  if (done.value < options.warmup_steps)
    return peak * static_cast<double>(done.value + 1) / static_cast<double>(options.warmup_steps);
  double span = std::max<double>(1, static_cast<double>(total.value - options.warmup_steps));
  double progress = static_cast<double>(done.value - options.warmup_steps) / span;
  if (options.schedule == "cosine") return peak * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  if (options.schedule == "step") return peak * (progress < 0.5 ? 1 : progress < 0.75 ? 0.1 : 0.01);
  return peak;
}

Sgd::Sgd(const Options& options, const tensor::ArenaLayout& layout) : options_(options) {
  check(options);
  for (const auto& tensor : layout.tensors()) {
    std::size_t end = tensor.offset + tensor.count;
    if (!ranges_.empty() && ranges_.back().role == tensor.role)
      ranges_.back().count = end - ranges_.back().offset;
    else
      ranges_.push_back({tensor.role, tensor.offset, tensor.count});
  }
}

void Sgd::update(kernels::Backend& backend, float* parameters, float* momentum, const float* gradients, double rate,
                 int observations) const {
  kernels::SgdStep step{static_cast<float>(rate), static_cast<float>(options_.momentum),
                        static_cast<float>(options_.weight_decay), options_.nesterov};
  for (const auto& [role, offset, count] : ranges_) {
    if (role == tensor::Role::parameter)
      backend.sgd(step, parameters + offset, momentum + offset, gradients + offset, count);
    else
      backend.running_average(parameters + offset, gradients + offset, static_cast<float>(options_.statistic_weight),
                              1.0f / static_cast<float>(observations), count);
  }
}

}  // namespace distdl::optim
