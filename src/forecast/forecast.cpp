// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/forecast/forecast.hpp>
#include <distdl/forecast/product_forecast.hpp>

namespace distdl::forecast {
namespace {
constexpr double kGibibyte = 1 << 30;
constexpr double kAsFast = 1.01;  ///< a product that is 1% slower is as good

std::string_view name_of(const Product& product) {
  return OneOf(product.strategy).name();
}

/// The nearest change with which a node's memory suffices.
std::string nearest_fit(const Basis& basis, const std::vector<ProductForecast>& products) {
  const double memory = node_memory(basis.machine);
  const int per_node = basis.cluster.ranks_per_node;
  double least = products.front().memory.total();
  for (const auto& each : products) least = std::min(least, each.memory.total());
  if (const int ranks = static_cast<int>(memory / least); ranks >= 1 && ranks < per_node)
    return fmt::format("--ranks-per-node {}", ranks);
  for (std::int64_t samples = basis.recipe.parallel.microbatch_size / 2; samples >= 1; samples /= 2) {
    const double less = basis.network.bytes - make_dry_network(basis.recipe.kernels, basis.work, samples).bytes;
    if ((least - less) * per_node <= memory)
      return fmt::format("parallel.microbatch_size = {} with {} microbatches", samples,
                         basis.recipe.parallel.microbatches * basis.recipe.parallel.microbatch_size / samples);
  }
  for (std::int64_t nodes = 2 * std::int64_t{basis.machine.nodes};
       nodes * per_node <= basis.recipe.parallel.microbatches; nodes *= 2) {
    Machine more = basis.machine;
    more.nodes = static_cast<int>(nodes);
    const Basis larger = basis_of(basis.recipe, basis.work, more);
    for (const auto& product : kProducts)
      if (forecast_product(larger, product).fits)
        return fmt::format("--nodes {} with parallel.strategy = \"{}\"", nodes, name_of(product));
  }
  return "a smaller model, or nodes with more memory";
}

void choose_product(const Basis& basis, Forecast& result) {
  const auto& products = result.products;
  const auto fits = std::ranges::count(products, true, &ProductForecast::fits);
  if (fits == 0) {
    std::vector<std::string> needs;
    needs.reserve(products.size());
    for (const auto& each : products)
      needs.push_back(fmt::format("{} {:.1f} GiB", name_of(each.product), each.node_bytes / kGibibyte));
    throw ConfigError(
        fmt::format("no product fits a node with {:.1f} GiB of memory: {} are needed there; the nearest "
                    "choice is {}",
                    node_memory(basis.machine) / kGibibyte, fmt::join(needs, ", "), nearest_fit(basis, products)));
  }
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto &one = products[i], &best = products[result.best];
    if (one.fits && (!best.fits || one.step.seconds * kAsFast < best.step.seconds)) result.best = i;
  }
  const auto& best = result.chosen();
  std::vector<std::string> reasons;
  for (const auto& other : products) {
    if (&other == &best) continue;
    if (!other.fits)
      reasons.push_back(fmt::format("{} does not fit", name_of(other.product)));
    else if (other.step.seconds > kAsFast * best.step.seconds)
      reasons.push_back(fmt::format("{} takes {:.1f}% longer", name_of(other.product),
                                    100 * (other.step.seconds / best.step.seconds - 1)));
    else
      reasons.push_back(fmt::format("{} is not faster by more than 1%", name_of(other.product)));
  }
  result.reason = fmt::format("{}", fmt::join(reasons, "; "));
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
  result.evaluation_seconds =
      std::ceil(count) * std::ceil(groups / basis.cluster.ranks()) * basis.measured.work.forward;
}

void add_saves(const Basis& basis, Forecast& result) {
  const auto& machine = basis.machine;
  const auto& best = result.chosen();
  const double buffers = basis.recipe.checkpoint.mode == checkpoint::SaveMode::sync ? 1 : 2;
  auto recipe = with_product(basis.recipe, best.product);
  recipe.checkpoint = {};  // two buffers of what a rank writes
  const auto plan = parallel::make_plan(recipe.parallel, basis.cluster.ranks());
  const double written = state_memory(recipe, basis.work, plan, machine.nodes, Rank(0), true).snapshots / 2;
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

void check_parts(const parallel::Options& options) {
  constexpr std::string_view kText =
      "a forecast knows ranks that hold the whole model, not {} = {}; take --set {}=1, which gives the same bytes";
  for (const auto& [key, ranks] : {std::pair("parallel.pipeline_ranks", options.pipeline_ranks),
                                   std::pair("parallel.tensor_ranks", options.tensor_ranks),
                                   std::pair("parallel.context_ranks", options.context_ranks)})
    require(ranks == 1, kText, key, ranks, key);
}
}  // namespace

Forecast forecast(const train::Recipe& recipe, const Workload& work, const Machine& machine) {
  check_parts(recipe.parallel);
  const Basis basis = basis_of(recipe, work, machine);
  Forecast result;
  result.global_batch = recipe.parallel.microbatches * recipe.parallel.microbatch_size;
  result.steps = train::steps_of(recipe, work.samples).value;
  for (const auto& product : kProducts) result.products.push_back(forecast_product(basis, product));
  choose_product(basis, result);
  add_evaluations(basis, result);
  add_saves(basis, result);
  add_goodput(basis, result);
  result.warnings = basis.warnings;
  if (recipe.parallel.recompute == parallel::Recompute::blocks)
    result.warnings.emplace_back(
        "parallel.recompute = \"blocks\" is not part of the forecast: a rank needs less memory, and a step takes up to "
        "a "
        "forward pass more");
  return result;
}

}  // namespace distdl::forecast
