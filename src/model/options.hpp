// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distdl::model {

struct Options {
  std::string name = "lenet";                ///< "lenet" or "mlp"
  std::vector<std::int64_t> hidden = {128};  ///< widths of the hidden linear layers
  bool batch_norm = false;                   ///< normalize after each hidden or convolution layer, per microbatch
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("model.name", options.name, "\"lenet\" (two convolutions) or \"mlp\" (linear layers only)");
  visit("model.hidden", options.hidden, "widths of the hidden linear layers, e.g. [256, 128]");
  visit("model.batch_norm", options.batch_norm,
        "normalize after each hidden or convolution layer, over each microbatch");
}

}  // namespace distdl::model
