// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <distdl/base/checked.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/data/mixing.hpp>
#include <distdl/kernels/check_options.hpp>
#include <distdl/model/context.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/best.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::train {
namespace {
constexpr double kLongestMargin = 86400 * 7;
constexpr double kLargestFraction = 0.5;  ///< beyond, places and values take more bytes than all values
constexpr std::int64_t kLargestRank = 64;
}  // namespace

void check(const Options& options) {
  require(options.epochs >= 1, "train.epochs is {}, but must be at least 1", options.epochs);
  require(options.steps >= 0, "train.steps is {}, but must not be negative", options.steps);
  require(options.end_at_step >= 0, "train.end_at_step is {}, but must not be negative", options.end_at_step);
  require(options.evaluate_every_steps >= 0, "train.evaluate_every_steps is {}, but must not be negative",
          options.evaluate_every_steps);
  require(options.audit_every >= 0, "train.audit_every is {}, but must not be negative", options.audit_every);
  require(options.evaluate_every >= 0, "train.evaluate_every is {}, but must not be negative", options.evaluate_every);
  require(options.stop_early_patience >= 0, "train.stop_early_patience is {}, but must not be negative",
          options.stop_early_patience);
  require(options.best_min_delta >= 0 && std::isfinite(options.best_min_delta),
          "train.best_min_delta is {}, but must be a number that is not negative", options.best_min_delta);
  require(options.stop_margin_seconds >= 0 && options.stop_margin_seconds <= kLongestMargin,
          "train.stop_margin_seconds is {}, but must be between 0 and {}", options.stop_margin_seconds, kLongestMargin);
}

/// Replicas, groups of local SGD and the workers of a parameter server send other bytes.
void check_compression(const Recipe& recipe) {
  const auto& options = recipe.parallel;
  require(options.compression.fraction > 0 && options.compression.fraction <= kLargestFraction,
          "parallel.compression_fraction is {}, but must be above 0 and at most {}", options.compression.fraction,
          kLargestFraction);
  require(options.compression.rank >= 1 && options.compression.rank <= kLargestRank,
          "parallel.compression_rank is {}, but must be between 1 and {}", options.compression.rank, kLargestRank);
  require(options.compression.warmup_steps >= 0, "parallel.compression_warmup_steps is {}, but must not be negative",
          options.compression.warmup_steps);
  if (!options.compression.is_on()) return;
  const auto refuse_unless = [&](bool is_possible, const std::string& other, const char* reason, const char* advice) {
    require(is_possible, "parallel.compression = \"{}\" and {} exclude each other: {}; use {}, or \"none\"",
            options.compression.encoding, other, reason, advice);
  };
  const auto strategy = fmt::format("parallel.strategy = \"{}\"", options.strategy);
  const auto& row = parallel::row_of(options.strategy);
  refuse_unless(row.can_compress, strategy, "it chooses by the bytes of what is not compressed",
                ("parallel.strategy = " + parallel::strategies_with_compression()).c_str());
  refuse_unless(!row.has_servers || !parallel::encoding_of(options.compression.encoding).makes_factors, strategy,
                "all ranks find the factors of a matrix together, but workers push apart",
                "parallel.compression = \"int8\"");
  refuse_unless(row.has_groups || row.has_servers || recipe.kernels.backend != "cuda", "kernels.backend = \"cuda\"",
                "codes of what replicas sum are made in host memory", "kernels.backend = \"onednn\"");
}

void check(const Recipe& recipe) {
  way_of(recipe.parallel.strategy).check(recipe);
  check_compression(recipe);
  if (recipe.parallel.strategy == parallel::Strategy::automatic) {  // which may always choose replicas
    Recipe chosen = recipe;
    chosen.parallel.strategy = parallel::Strategy::replicas;
    return check(chosen);
  }
  data::check(recipe.data);
  require(
      !data::mixes_images(recipe.data) || recipe.parallel.microbatch_size > 1,
      "data.mixup and data.cutmix mix the images of a microbatch, but parallel.microbatch_size is 1; use 2 or more");
  model::check(recipe.model);
  parallel::check(recipe.parallel);
  parallel::make_plan(recipe.parallel, 1);
  optim::check(recipe.optim);
  check(recipe.train);
  require(!compares_evaluations(recipe.train) || !recipe.data.validation.empty() || recipe.data.holdout > 0,
          "{} compares evaluations, but there is nothing to evaluate on: set data.validation or data.holdout",
          recipe.train.keep_best ? "train.keep_best" : "train.stop_early_patience");
  kernels::check(recipe.kernels);
  require(
      recipe.train.audit_every == 0 || recipe.kernels.deterministic,
      "train.audit_every compares bits, which kernels.deterministic = false does not repeat: leave out one of them");
  require(recipe.train.audit_every == 0 || recipe.parallel.strategy == parallel::Strategy::replicas,
          "train.audit_every compares what all ranks hold, but with parallel.strategy = \"{}\" a rank alone holds its "
          "part of the moments: leave out one of them",
          recipe.parallel.strategy);
  checkpoint::check(recipe.checkpoint);
}

void check_devices(const Recipe& recipe, std::int64_t devices) {
  require(devices >= 1 && devices <= kMostDevices, "run.devices_per_rank is {}, but must be between 1 and {}", devices,
          kMostDevices);
  if (devices == 1) return;
  const auto& options = recipe.parallel;
  const auto refuse_unless = [&](bool is_possible, const std::string& other, const char* reason,
                                 const std::string& advice) {
    require(is_possible, "run.devices_per_rank = {} and {} exclude each other: {}; use {}, or run.devices_per_rank = 1",
            devices, other, reason, advice);
  };
  for (const auto& [key, ranks] : {std::pair("pipeline_ranks", options.pipeline_ranks),
                                   {"tensor_ranks", options.tensor_ranks},
                                   {"context_ranks", options.context_ranks}})
    refuse_unless(ranks == 1, fmt::format("parallel.{} = {}", key, ranks), "each device has the whole model",
                  fmt::format("parallel.{} = 1", key));
  refuse_unless(!parallel::row_of(options.strategy).shards_parameters,
                fmt::format("parallel.strategy = \"{}\"", options.strategy), "each device needs all parameters",
                "parallel.strategy = \"sharded_gradients\"");
  refuse_unless(options.strategy != parallel::Strategy::automatic, "parallel.strategy = \"auto\"",
                "it may choose parts of the model for the ranks", "parallel.strategy = \"replicas\"");
  refuse_unless(parallel::repeats_bits(options), fmt::format("parallel.server_mode = \"{}\"", options.servers.mode),
                "a worker computes one microbatch at a time", "parallel.server_mode = \"synchronous\"");
  refuse_unless(recipe.train.audit_every == 0, fmt::format("train.audit_every = {}", recipe.train.audit_every),
                "an audit computes a microbatch again on one device", "train.audit_every = 0");
  refuse_unless(recipe.kernels.backend != "cuda", "kernels.backend = \"cuda\"",
                "the gradients of a rank's devices are summed in host memory, so that each GPU needs a rank",
                "kernels.backend = \"onednn\"");
}

model::Description model_of(const Recipe& recipe, const data::Source& samples) {
  auto model = model::describe_model(recipe.model, samples.shape(), samples.classes(), samples.targets());
  require(
      model::tells_classes(model) || recipe.train.best_metric != Metric::accuracy ||
          !compares_evaluations(recipe.train),
      "train.best_metric is \"accuracy\", but the data set has numbers to predict, and no classes; set it to \"loss\"");
  if (data::mixes_images(recipe.data)) {
    auto* const entropy = std::get_if<kernels::CrossEntropy>(&model.loss);
    require(entropy != nullptr && samples.shape().size() == 3,
            "data.mixup and data.cutmix mix labelled images, but {} has samples of shape {}: set both to 0",
            samples.name(), tensor::to_string(samples.shape()));
    entropy->is_mixed = true;
  }
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
  constexpr std::int64_t kStepsAhead = 16;
  checked_product(checked_sum(steps, kStepsAhead, "the number of steps"), global_batch,
                  "the number of samples of all steps");
  return Step(steps);
}

}  // namespace distdl::train
