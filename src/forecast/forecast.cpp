// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/forecast/forecast.hpp>
#include <distdl/forecast/nearest_fit.hpp>
#include <distdl/forecast/product_forecast.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/parallel/tensor_placement.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::forecast {
namespace {
/// Adds the forecast of a product that keeps its activations. If that does not fit, or the job asks for it, adds the
/// one that computes them again.
void add_product(const Basis& basis, const Product& product, std::vector<ProductForecast>& products) {
  products.push_back(forecast_product(basis, product));
  const bool is_asked = basis.recipe.parallel.recompute == parallel::Recompute::blocks;
  if ((products.back().fits && !is_asked) || !can_recompute(basis.recipe, product)) return;
  auto again = product;
  again.recomputes = true;
  products.push_back(forecast_product(basis, again));
}

/// Throws ConfigError, which names the nearest choice, unless the ranks can share sequences as the job asks for.
void check_context(const parallel::Options& options, int ranks) {
  if (ranks % options.context_ranks == 0) return;
  auto alone = options;
  alone.pipeline_ranks = alone.tensor_ranks = 1;
  parallel::degrees_of(alone, ranks, 1);
}

void forecast_all(const Basis& basis, Forecast& result, const ForecastProgress& progress) {
  check_context(basis.recipe.parallel, basis.cluster.ranks());
  const auto products = products_of(basis.recipe, basis.work.model, basis.cluster.ranks());
  require_possible(basis, products);
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (progress) progress(i, products.size(), products[i]);
    add_product(basis, products[i], result.products);
  }
}

/// Describes the job's own product, compared with the best one.
std::string reason_of(const Forecast& result, std::ptrdiff_t fits) {
  const auto& best = result.chosen();
  auto text = fmt::format("of {} products, {} fit", result.products.size(), fits);
  if (!result.own) return text + "; the job file's is not possible";
  if (*result.own == result.best) return text + "; it is the job file's";
  const auto& own = result.products[*result.own];
  text += fmt::format("; the job file's, {}, ", name_of(own.product));
  if (!own.fits) return text + "does not fit";
  return text + fmt::format("takes {:.1f}% longer", 100 * (own.step.seconds / best.step.seconds - 1));
}

std::optional<std::size_t> place_of(const Forecast& result, const Product& product) {
  const auto found = std::ranges::find(result.products, product, &ProductForecast::product);
  if (found == result.products.end()) return std::nullopt;
  return static_cast<std::size_t>(found - result.products.begin());
}

void find_own(const Basis& basis, Forecast& result) {
  if (basis.is_automatic()) {
    result.own = place_of(result, result.automatic->product);
    return;
  }
  std::string obstacle;
  auto own = own_product(basis.recipe, basis.work.model, basis.cluster.ranks(), obstacle);
  if (own) result.own = place_of(result, *own);
  const bool decides = basis.recipe.parallel.recompute == parallel::Recompute::automatic;
  if (result.own && decides && own->degrees.parts() == 1 && !result.products[*result.own].fits) {
    own->recomputes = true;  // as the program does then
    result.own = place_of(result, *own);
  }
  if (obstacle.empty()) return;
  result.warnings.push_back(own ? fmt::format("{}: the ranks would train as {}", obstacle, name_of(*own)) : obstacle);
}

/// Checks the result: with "auto" it is an error if nothing fits, or the job's numbers of ranks are not possible.
void choose_automatic(const Basis& basis, Forecast& result) try {
  result.automatic = choice_on_device(basis.recipe, basis.work.model, basis.cluster.ranks());
  if (!result.automatic) result.automatic = choose(basis, result.products);
} catch (const ConfigError&) {
  if (basis.is_automatic()) throw;
}

/// The products are in the order of their simplicity.
void choose_product(const Basis& basis, Forecast& result) {
  auto& products = result.products;
  const auto fits = std::ranges::count(products, true, &ProductForecast::fits);
  if (fits == 0) refuse(basis, products);
  const auto best = best_of(products)->product;
  std::ranges::stable_sort(products, {},
                           [](const ProductForecast& each) { return std::pair(!each.fits, each.step.seconds); });
  result.best = *place_of(result, best);
  find_own(basis, result);
  result.reason = reason_of(result, fits);
  const auto ranks = basis.cluster.ranks() / basis.recipe.parallel.context_ranks;
  result.limits = fmt::format(
      "replicas x stages x tensor ranks = {}: at most {} replicas (parallel.microbatches), {} stages (the model), {} "
      "tensor ranks (parallel.tensor_shards)",
      ranks, basis.recipe.parallel.microbatches, parallel::most_stages(basis.work.model),
      basis.recipe.parallel.tensor_shards);
}

/// Adds warnings about the best product, and about the job file's own.
void warn_of_divided_groups(const Basis& basis, Forecast& result) {
  for (std::size_t i = 0; i < result.products.size(); ++i) {
    if (i != result.best && i != result.own) continue;
    const auto& product = result.products[i].product;
    const auto divided = parallel::divided_tensor_group(product.degrees, basis.cluster.ranks_per_node);
    if (!divided.empty()) result.warnings.push_back(fmt::format("{}: {}", name_of(product), divided));
  }
}

void add_evaluations(const Basis& basis, Forecast& result) {
  const auto& [recipe, work] = std::tie(basis.recipe, basis.work);
  const double groups =
      std::ceil(static_cast<double>(work.validation_samples) / static_cast<double>(recipe.parallel.microbatch_size));
  const double steps_per_epoch = static_cast<double>(work.samples) / static_cast<double>(result.global_batch);
  double count = work.validation_samples > 0 ? 1 : 0;
  if (recipe.train.evaluate_every > 0)
    count = static_cast<double>(result.steps) / steps_per_epoch / static_cast<double>(recipe.train.evaluate_every);
  if (recipe.train.evaluate_every_steps > 0)
    count += static_cast<double>(result.steps) / static_cast<double>(recipe.train.evaluate_every_steps);
  const double each = std::ceil(groups / result.chosen().product.degrees.data) * basis.measured.work.forward;
  result.evaluation_seconds = std::ceil(count) * each / result.chosen().product.degrees.parts();
}

void add_saves(const Basis& basis, Forecast& result) {
  const auto& machine = basis.machine;
  const auto& best = result.chosen();
  const double buffers = basis.recipe.checkpoint.mode == checkpoint::SaveMode::sync ? 1 : 2;
  const double written = best.written_bytes;
  const Calibration figures = machine.calibration.value_or(Calibration{});
  auto& save = result.save;
  save.durable_seconds = written / figures.copy_rate + written / figures.write_rate;
  save.stall_seconds = buffers == 1 ? save.durable_seconds : written / figures.copy_rate;
  if (basis.recipe.checkpoint.mode == checkpoint::SaveMode::lazy) save.stall_seconds = 0;
  const double mean = machine.node_mtbf_hours * 3600 / machine.nodes;
  const double run = static_cast<double>(result.steps) * best.step.seconds;
  constexpr double kLeastStall = 1e-3;  // questions among the ranks
  save.stall_seconds = std::max(save.stall_seconds, kLeastStall);
  save.interval_seconds = mean > 0 ? checkpoint::daly_interval(save.stall_seconds, mean) : run;
  save.interval_seconds = std::max(save.interval_seconds, save.durable_seconds);
  save.interval_steps =
      std::clamp<std::int64_t>(std::llround(std::min(1e15, save.interval_seconds / best.step.seconds)), 1,
                               std::max<std::int64_t>(1, result.steps));
}

void add_goodput(const Basis& basis, Forecast& result) {
  const auto& machine = basis.machine;
  FailureModel model;
  model.nodes = machine.nodes;
  model.least_nodes = machine.least_nodes;
  model.spares = machine.spares;
  model.node_mean_seconds = machine.node_mtbf_hours * 3600;
  model.relaunches = machine.relaunches;
  model.restore_seconds = result.save.durable_seconds;  // disks read about as fast as they write
  model.stall_seconds = result.save.stall_seconds;
  model.interval_seconds = static_cast<double>(result.save.interval_steps) * result.chosen().step.seconds;
  model.work_seconds = static_cast<double>(result.steps) * result.chosen().step.seconds + result.evaluation_seconds;
  result.goodput = simulate_failures(model, machine.seed);
  result.node_hours = (machine.nodes + machine.spares) * result.goodput.seconds / 3600;
}

}  // namespace

Forecast forecast(const train::Recipe& recipe, const Workload& work, const Machine& machine,
                  const ForecastProgress& progress) {
  const train::Way& way = train::way_of(recipe.parallel.strategy);
  require(way.no_forecast.empty(),
          "parallel.strategy = \"{}\": {}; --set parallel.strategy=replicas tells the times of a run that sums "
          "gradients in each step",
          recipe.parallel.strategy, way.no_forecast);
  const Basis basis = basis_of(recipe, work, machine);
  Forecast result;
  result.global_batch = recipe.parallel.microbatches * recipe.parallel.microbatch_size;
  result.steps = train::steps_of(recipe, work.samples).value;
  result.warnings = basis.warnings;
  if (recipe.parallel.context_chunks > 1)
    result.warnings.push_back(fmt::format("times are those of whole sequences, not of parallel.context_chunks = {}",
                                          recipe.parallel.context_chunks));
  forecast_all(basis, result, progress);
  choose_automatic(basis, result);
  choose_product(basis, result);
  warn_of_divided_groups(basis, result);
  add_evaluations(basis, result);
  add_saves(basis, result);
  add_goodput(basis, result);
  return result;
}

}  // namespace distdl::forecast
