// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::train {

struct Options {
  std::int64_t epochs = 8;
  std::int64_t seed = 1;            ///< of start values and sample order
  std::int64_t evaluate_every = 1;  ///< epochs between evaluations; 0: only at the end
  double stop_margin_seconds = 15;  ///< kept free before the end of the job, beyond the measured time of a save
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("train.epochs", options.epochs, "how often every sample is seen");
  visit("train.seed", options.seed, "of start values and sample order");
  visit("train.evaluate_every", options.evaluate_every, "epochs between evaluations; 0: only at the end");
  visit("train.stop_margin_seconds", options.stop_margin_seconds,
        "seconds kept free before the job's end, beyond the measured time of a save");
}

}  // namespace distdl::train
