// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/checked.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/kernels/check_options.hpp>
#include <distdl/model/context.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::train {
namespace {
constexpr double kLongestMargin = 86400 * 7;

void check_tensor_ranks(const Recipe& recipe) {
  if (recipe.parallel.tensor_ranks == 1) return;
  require(
      !optim::find_rule(recipe.optim.name).adapts,
      "optim.name = \"{}\" adapts its steps to whole tensors, which no rank has with parallel.tensor_ranks = {}: use "
      "\"adamw\" or \"sgd\", or parallel.tensor_ranks = 1",
      recipe.optim.name, recipe.parallel.tensor_ranks);
}
}  // namespace

void check(const Options& options) {
  require(options.epochs >= 1, "train.epochs is {}, but must be at least 1", options.epochs);
  require(options.steps >= 0, "train.steps is {}, but must not be negative", options.steps);
  require(options.evaluate_every_steps >= 0, "train.evaluate_every_steps is {}, but must not be negative",
          options.evaluate_every_steps);
  require(options.audit_every >= 0, "train.audit_every is {}, but must not be negative", options.audit_every);
  require(options.evaluate_every >= 0, "train.evaluate_every is {}, but must not be negative", options.evaluate_every);
  require(options.stop_margin_seconds >= 0 && options.stop_margin_seconds <= kLongestMargin,
          "train.stop_margin_seconds is {}, but must be between 0 and {}", options.stop_margin_seconds, kLongestMargin);
}

/// A rank lets go of gradients that others need no more.
void check_sharded_gradients(const Recipe& recipe) {
  const auto& strategy = recipe.parallel.strategy;
  if (!parallel::shards_gradients(strategy)) return;
  constexpr const char* kText =
      "parallel.strategy = \"{}\" gives up gradients before all are there, but {} needs all of them: use \"sharded\"";
  require(recipe.optim.clip_norm == 0, kText, strategy, "optim.clip_norm");
  require(recipe.kernels.precision.name() != "fp16", kText, strategy, "kernels.precision = \"fp16\"");
  require(!optim::find_rule(recipe.optim.name).adapts, kText, strategy,
          fmt::format("optim.name = \"{}\"", recipe.optim.name));
}

/// Blocks of layers are gathered in the order of one pass over the whole model.
void check_sharded_parameters(const Recipe& recipe) {
  const auto& options = recipe.parallel;
  if (options.strategy != parallel::Strategy::sharded_parameters) return;
  const auto check = [](const char* key, std::int64_t value) {
    require(value == 1,
            "parallel.strategy = \"sharded_parameters\" gathers whole layers for whole passes, but {} = {} divides "
            "them: use \"sharded_gradients\", or {} = 1",
            key, value, key);
  };
  check("parallel.pipeline_ranks", options.pipeline_ranks);
  check("parallel.tensor_ranks", options.tensor_ranks);
  check("parallel.context_chunks", options.context_chunks);
}

void check(const Recipe& recipe) {
  if (recipe.parallel.strategy == parallel::Strategy::automatic) {  // which may always choose replicas
    Recipe chosen = recipe;
    chosen.parallel.strategy = parallel::Strategy::replicas;
    return check(chosen);
  }
  data::check(recipe.data);
  model::check(recipe.model);
  parallel::check(recipe.parallel);
  parallel::make_plan(recipe.parallel, 1);
  optim::check(recipe.optim);
  check(recipe.train);
  kernels::check(recipe.kernels);
  require(
      recipe.train.audit_every == 0 || recipe.kernels.deterministic,
      "train.audit_every compares bits, which kernels.deterministic = false does not repeat: leave out one of them");
  require(recipe.train.audit_every == 0 || recipe.parallel.strategy == parallel::Strategy::replicas,
          "train.audit_every compares what all ranks hold, but with parallel.strategy = \"{}\" a rank alone holds its "
          "part of the moments: leave out one of them",
          recipe.parallel.strategy);
  check_tensor_ranks(recipe);
  check_sharded_gradients(recipe);
  check_sharded_parameters(recipe);
  checkpoint::check(recipe.checkpoint);
}

model::Description model_of(const Recipe& recipe, const data::Source& samples) {
  const auto model = model::describe_model(recipe.model, samples.shape(), samples.classes());
  model::check_context(model, recipe.parallel.context_chunks);
  return model::divide(model, recipe.parallel.tensor_shards);
}

Step steps_of(const Recipe& recipe, std::int64_t samples) {
  const std::int64_t global_batch = parallel::make_plan(recipe.parallel, 1).global_batch();
  std::int64_t steps = recipe.train.steps;
  if (steps == 0) {
    const auto seen =
        checked_product(recipe.train.epochs, samples, "the length of the run, train.epochs times samples,");
    steps = seen / global_batch + (seen % global_batch > 0);
  }
  // Positions in the stream of samples must be numbers too, and a few steps beyond are read ahead.
  constexpr std::int64_t kAhead = 16;
  checked_product(checked_sum(steps, kAhead, "the number of steps"), global_batch,
                  "the number of samples of all steps");
  return Step(steps);
}

}  // namespace distdl::train
