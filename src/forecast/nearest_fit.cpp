// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/forecast/nearest_fit.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::forecast {
namespace {
constexpr double kGibibyte = 1 << 30;

/// Returns the nearest smaller microbatch that fits, with as many more microbatches, so that a step has the same
/// samples; 0: none fits.
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
std::optional<Product> fitting(const Basis& basis, const train::Recipe& recipe, int nodes, int ranks_per_node) {
  Machine machine = basis.machine;
  machine.nodes = nodes;
  machine.ranks_per_node = ranks_per_node;
  const Basis other = basis_of(recipe, basis.work, machine);
  const int ranks = nodes * ranks_per_node;
  if (ranks % recipe.parallel.context_ranks != 0) return std::nullopt;  // no job begins so
  const auto& model = basis.work.model;
  for (const auto& product :
       basis.is_automatic() ? automatic_products(recipe, model, ranks) : products_of(recipe, model, ranks))
    if (forecast_product(other, product).fits) return product;
  return std::nullopt;
}

std::optional<Product> fitting(const Basis& basis, int nodes, int ranks_per_node) try {
  return fitting(basis, basis.recipe, nodes, ranks_per_node);
} catch (const ConfigError&) {  // the recipe's own degrees are not possible there
  return std::nullopt;
}

/// Returns the product that fits without the recipe's settings of recomputation and degrees.
std::optional<Product> fitting_otherwise(const Basis& basis) {
  auto recipe = basis.recipe;
  auto& options = recipe.parallel;
  options.recompute = parallel::Recompute::automatic;
  options.pipeline_ranks = options.tensor_ranks = 1;
  options.stage_layers.clear();
  return fitting(basis, recipe, basis.machine.nodes, basis.cluster.ranks_per_node);
}

/// The nearest change with which a node's memory suffices.
std::string nearest_fit(const Basis& basis, const std::vector<ProductForecast>& products) {
  const int nodes = basis.machine.nodes, per_node = basis.cluster.ranks_per_node;
  const bool chooses = basis.is_automatic();
  const int most_ranks = chooses ? 16 * basis.cluster.ranks() : 4096;
  const auto text = [&](const char* what, int count, const char* where, const Product& product) {
    return fmt::format("{} {}{}{}{}", count, what, count == 1 ? "" : "s", where,
                       chooses ? "" : " with " + keys_of(product));
  };
  if (chooses)
    if (const auto product = fitting_otherwise(basis)) return keys_of(*product);
  for (int ranks = per_node - 1; ranks >= 1 && nodes * per_node <= most_ranks; --ranks)
    if (const auto product = fitting(basis, nodes, ranks)) return text("rank", ranks, " on each node", *product);
  const auto least = std::ranges::min_element(products, {}, &ProductForecast::node_bytes);
  if (const auto samples = nearest_microbatch(basis, least->product); samples > 0)
    return fmt::format("parallel.microbatch_size = {} with {} microbatches", samples,
                       basis.recipe.parallel.microbatches * (basis.recipe.parallel.microbatch_size / samples));
  for (int more = 2 * nodes; more * per_node <= most_ranks; more *= 2)
    if (const auto product = fitting(basis, more, per_node)) return text("node", more, "", *product);
  return "a smaller model, or nodes with more memory";
}

struct NodesAndRanks {
  std::int64_t nodes = 1, here = 1;  ///< `here`: ranks of a node
};

/// Returns the most nodes and ranks with which each replica has a microbatch, and whole context groups; if possible
/// with as many ranks on a node as there are.
NodesAndRanks most_for_replicas(const Basis& basis) {
  const auto& options = basis.recipe.parallel;
  const std::int64_t group = options.context_ranks, most = options.microbatches * group;
  for (std::int64_t here = basis.cluster.ranks_per_node; here >= 1; --here) {
    const auto nodes = std::min<std::int64_t>(basis.cluster.nodes, most / here);
    for (std::int64_t fewer = nodes; fewer >= 1 && fewer > nodes - group; --fewer)
      if (fewer * here % group == 0) return {fewer, here};
  }
  return {};
}
}  // namespace

void require_possible(const Basis& basis, const std::vector<Product>& products) {
  const int ranks = basis.cluster.ranks(), per_node = basis.cluster.ranks_per_node;
  const auto microbatches = basis.recipe.parallel.microbatches;
  const auto counted = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const auto [nodes, here] = most_for_replicas(basis);
  require(
      !products.empty(),
      "{} nodes of {} are {} ranks, but a step has {} microbatches, and each rank needs one, unless more ranks hold "
      "the model together than its {} stages and {} tensor shards permit; the nearest choice is {}, or "
      "parallel.microbatches = {} with a smaller parallel.microbatch_size",
      basis.cluster.nodes, counted(per_node, "rank"), ranks, microbatches, parallel::most_stages(basis.work.model),
      basis.recipe.parallel.tensor_shards,
      basis.is_automatic()
          ? counted(nodes, "node") + " of " + counted(here, "rank")
          : fmt::format("--nodes {}{}", nodes, here < per_node ? fmt::format(" --ranks-per-node {}", here) : ""),
      ranks);
}

void refuse(const Basis& basis, const std::vector<ProductForecast>& products) {
  const auto least = std::ranges::min_element(products, {}, &ProductForecast::node_bytes);
  throw MemoryTooSmall(
      fmt::format("none of {} products fits a node with {:.1f} GiB of memory: {} needs the least, {:.2f} GiB; the "
                  "nearest choice is {}",
                  products.size(), node_memory(basis.machine) / kGibibyte, name_of(least->product),
                  least->node_bytes / kGibibyte, nearest_fit(basis, products)));
}

void require_memory(const train::Recipe& recipe, const Workload& work, const Machine& machine) {
  // The groups of local SGD are checked when they are allocated.
  if (!train::way_of(recipe.parallel.strategy).no_forecast.empty() ||
      parallel::row_of(recipe.parallel.strategy).has_groups)
    return;
  const Basis basis = basis_of(recipe, work, machine);
  const int ranks = basis.cluster.ranks();
  if (choice_on_device(recipe, work.model, ranks)) return;
  std::vector<ProductForecast> tried;
  if (basis.is_automatic()) {
    choose(basis, tried);
    return;
  }
  std::string obstacle;
  auto own = own_product(recipe, work.model, ranks, obstacle);
  if (!own) return;
  tried.push_back(forecast_product(basis, *own));
  const bool may_recompute = recipe.parallel.recompute == parallel::Recompute::automatic;
  if (!tried.back().fits && may_recompute && own->degrees.parts() == 1 && can_recompute(recipe, *own)) {
    own->recomputes = true;  // as the program does then
    tried.push_back(forecast_product(basis, *own));
  }
  if (!tried.back().fits) refuse(basis, tried);
}

}  // namespace distdl::forecast
