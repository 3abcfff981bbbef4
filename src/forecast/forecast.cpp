// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/forecast/forecast.hpp>
#include <distdl/forecast/product_forecast.hpp>
#include <distdl/parallel/stages.hpp>

namespace distdl::forecast {
namespace {
constexpr double kGibibyte = 1 << 30;
constexpr double kAsFast = 1.01;  ///< a product that is 1% slower is as good

/// With a part of the samples in as many more microbatches, so that a step has the same samples; 0: none fits.
std::int64_t nearest_microbatch(const Basis& basis, const Product& product) {
  const auto& options = basis.recipe.parallel;
  for (std::int64_t parts = 2; parts <= options.microbatch_size; ++parts) {
    if (options.microbatch_size % parts != 0) continue;
    if (options.microbatches > parallel::kMostMicrobatches / parts) break;
    const std::int64_t samples = options.microbatch_size / parts;
    auto recipe = basis.recipe;
    recipe.parallel.microbatches *= parts;
    recipe.parallel.microbatch_size = samples;
    if (forecast_product(basis_of(recipe, basis.work, basis.machine), product).fits) return samples;
  }
  return 0;
}

/// The simplest product that fits such nodes.
std::optional<Product> fitting(const Basis& basis, int nodes, int ranks_per_node) {
  Machine machine = basis.machine;
  machine.nodes = nodes;
  machine.ranks_per_node = ranks_per_node;
  const Basis other = basis_of(basis.recipe, basis.work, machine);
  for (const auto& product : products_of(basis.recipe, basis.work.model, nodes * ranks_per_node))
    if (forecast_product(other, product).fits) return product;
  return std::nullopt;
}

/// The nearest change with which a node's memory suffices.
std::string nearest_fit(const Basis& basis, const std::vector<ProductForecast>& products) {
  const int nodes = basis.machine.nodes, per_node = basis.cluster.ranks_per_node;
  constexpr int kMostRanks = 4096;
  const auto with = [](const Product& product) { return fmt::format(" with {}", keys_of(product)); };
  for (int ranks = per_node - 1; ranks >= 1 && nodes * per_node <= kMostRanks; --ranks)
    if (const auto product = fitting(basis, nodes, ranks))
      return fmt::format("--ranks-per-node {}", ranks) + with(*product);
  const auto least = std::ranges::min_element(products, {}, &ProductForecast::node_bytes);
  if (const auto samples = nearest_microbatch(basis, least->product); samples > 0)
    return fmt::format("parallel.microbatch_size = {} with {} microbatches", samples,
                       basis.recipe.parallel.microbatches * (basis.recipe.parallel.microbatch_size / samples));
  for (int more = 2 * nodes; more * per_node <= kMostRanks; more *= 2)
    if (const auto product = fitting(basis, more, per_node)) return fmt::format("--nodes {}", more) + with(*product);
  return "a smaller model, or nodes with more memory";
}

/// Of a product that keeps its activations, and where that does not fit, or the job asks for it, of the one that
/// computes them again.
void add_product(const Basis& basis, const Product& product, std::vector<ProductForecast>& products) {
  products.push_back(forecast_product(basis, product));
  const bool is_asked = basis.recipe.parallel.recompute == parallel::Recompute::blocks;
  if ((products.back().fits && !is_asked) || !can_recompute(basis.recipe, product)) return;
  auto again = product;
  again.recomputes = true;
  products.push_back(forecast_product(basis, again));
}

void forecast_all(const Basis& basis, Forecast& result) {
  const int ranks = basis.cluster.ranks(), per_node = basis.cluster.ranks_per_node;
  const auto microbatches = basis.recipe.parallel.microbatches;
  const auto products = products_of(basis.recipe, basis.work.model, ranks);
  require(!products.empty(),
          "{} nodes of {} rank{} are {} ranks, but a step has {} microbatches, and each rank needs one, unless more "
          "ranks hold the model together than its {} stages and {} tensor shards permit; the nearest choice is --nodes "
          "{}{}, or parallel.microbatches = {} with a smaller parallel.microbatch_size",
          basis.cluster.nodes, per_node, per_node == 1 ? "" : "s", ranks, microbatches,
          parallel::most_stages(basis.work.model), basis.recipe.parallel.tensor_shards,
          std::max<std::int64_t>(1, microbatches / per_node),
          microbatches < per_node ? fmt::format(" --ranks-per-node {}", microbatches) : "", ranks);
  for (const auto& product : products) add_product(basis, product, result.products);
}

[[noreturn]] void refuse(const Basis& basis, const std::vector<ProductForecast>& products) {
  const auto least = std::ranges::min_element(products, {}, &ProductForecast::node_bytes);
  throw ConfigError(
      fmt::format("none of {} products fits a node with {:.1f} GiB of memory: {} needs the least, {:.2f} GiB; the "
                  "nearest choice is {}",
                  products.size(), node_memory(basis.machine) / kGibibyte, name_of(least->product),
                  least->node_bytes / kGibibyte, nearest_fit(basis, products)));
}

/// What the job's own product is, compared with the best one.
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

/// The products are in the order of their simplicity.
void choose_product(const Basis& basis, Forecast& result) {
  auto& products = result.products;
  const auto fits = std::ranges::count(products, true, &ProductForecast::fits);
  if (fits == 0) refuse(basis, products);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& each : products)
    if (each.fits) least = std::min(least, each.step.seconds);
  const auto best = std::ranges::find_if(products, [&](const ProductForecast& each) {
                      return each.fits && each.step.seconds <= kAsFast * least;
                    })->product;
  std::ranges::stable_sort(products, {},
                           [](const ProductForecast& each) { return std::pair(!each.fits, each.step.seconds); });
  result.best = *place_of(result, best);
  find_own(basis, result);
  result.reason = reason_of(result, fits);
  const int ranks = basis.cluster.ranks();
  result.limits = fmt::format(
      "replicas x stages x tensor ranks = {}: at most {} replicas (parallel.microbatches), {} stages (the model), {} "
      "tensor ranks (parallel.tensor_shards)",
      ranks, basis.recipe.parallel.microbatches, parallel::most_stages(basis.work.model),
      basis.recipe.parallel.tensor_shards);
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

Forecast forecast(const train::Recipe& recipe, const Workload& work, const Machine& machine) {
  require(
      recipe.parallel.context_ranks == 1,
      "a forecast does not know ranks that share chunks of sequences, as with parallel.context_ranks = {}; take --set "
      "parallel.context_ranks=1, which gives the same bytes",
      recipe.parallel.context_ranks);
  const Basis basis = basis_of(recipe, work, machine);
  Forecast result;
  result.global_batch = recipe.parallel.microbatches * recipe.parallel.microbatch_size;
  result.steps = train::steps_of(recipe, work.samples).value;
  result.warnings = basis.warnings;
  if (recipe.parallel.context_chunks > 1)
    result.warnings.push_back(
        fmt::format("times and memory are those of whole sequences, not of parallel.context_chunks = {}",
                    recipe.parallel.context_chunks));
  forecast_all(basis, result);
  choose_product(basis, result);
  add_evaluations(basis, result);
  add_saves(basis, result);
  add_goodput(basis, result);
  return result;
}

}  // namespace distdl::forecast
