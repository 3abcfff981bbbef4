// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/train/engine/whole_models.hpp>

namespace distdl::train {

void check_whole_models(const Recipe& recipe, const WholeModelReasons& why) {
  const auto& options = recipe.parallel;
  const auto refuse_unless = [&](bool is_possible, const std::string& other, const char* reason,
                                 const std::string& advice) {
    require(is_possible, "parallel.strategy = \"{}\" and {} exclude each other: {}; use {}", options.strategy, other,
            reason, advice);
  };
  for (const auto& [key, ranks] : {std::pair("pipeline_ranks", options.pipeline_ranks),
                                   {"tensor_ranks", options.tensor_ranks},
                                   {"context_ranks", options.context_ranks}})
    refuse_unless(ranks == 1, fmt::format("parallel.{} = {}", key, ranks), why.ranks,
                  fmt::format("parallel.{} = 1", key));
  refuse_unless(why.average == nullptr || recipe.optim.ema_decay == 0,
                fmt::format("optim.ema_decay = {}", recipe.optim.ema_decay), why.average, "optim.ema_decay = 0");
  refuse_unless(recipe.train.audit_every == 0, fmt::format("train.audit_every = {}", recipe.train.audit_every),
                why.audits, "train.audit_every = 0");
  refuse_unless(why.fp16 == nullptr || recipe.kernels.precision.name() != "fp16", "kernels.precision = \"fp16\"",
                why.fp16, "kernels.precision = \"bf16\"");
}

}  // namespace distdl::train
