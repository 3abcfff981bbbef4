// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/train/recipe.hpp>

namespace distdl::train {

/// Why a way of training in which each rank has the whole model excludes other things.
struct WholeModelReasons {
  const char* ranks;    ///< parts of the model on several ranks
  const char* average;  ///< optim.ema_decay; null: it is possible
  const char* audits;
  const char* fp16;  ///< null: it is possible
};
/// Throws ConfigError, with the reason, for a recipe that asks for one of them.
void check_whole_models(const Recipe& recipe, const WholeModelReasons& why);

}  // namespace distdl::train
