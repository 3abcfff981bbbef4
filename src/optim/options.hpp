// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::optim {

struct Options {
  double learning_rate = 0.05;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
  std::string schedule = "cosine";  ///< constant, cosine (to 0 at the last step), step (x 0.1 at 1/2 and 3/4)
  std::int64_t warmup_steps = 0;    ///< the rate rises linearly from 0 over so many steps
  double statistic_weight = 0.1;    ///< how much of a running statistic one step replaces
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("optim.learning_rate", options.learning_rate, "peak learning rate for the mean loss over the global batch");
  visit("optim.momentum", options.momentum, "momentum of stochastic gradient descent; 0 switches it off");
  visit("optim.weight_decay", options.weight_decay, "added to each gradient: weight_decay * parameter");
  visit("optim.nesterov", options.nesterov, "look-ahead momentum");
  visit("optim.schedule", options.schedule,
        "\"constant\", \"cosine\" (falls to 0 at the last step) or \"step\" (a tenth at 1/2 and again at 3/4 of the "
        "run)");
  visit("optim.warmup_steps", options.warmup_steps, "the rate rises linearly over so many first steps");
  visit("optim.statistic_weight", options.statistic_weight,
        "how much of a running statistic (batch norm) one step replaces");
}

}  // namespace distdl::optim
