// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/forecast/products.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::forecast {
namespace {
/// True if the program takes this product, by its own checks.
bool is_possible(const train::Recipe& recipe, const model::Description& model, int most_stages,
                 const Product& product) try {
  const auto changed = with_product(recipe, product);
  train::check(changed);
  if (!changed.parallel.stage_layers.empty()) parallel::check_stages(changed.parallel, model);
  auto degrees = parallel::degrees_of(changed.parallel, product.degrees.ranks(), most_stages);
  degrees.groups = product.degrees.groups;
  return degrees == product.degrees;
} catch (const ConfigError&) {
  return false;
}

/// With groups that train apart the bytes are others: no product with groups is compared with one without.
bool has_groups(parallel::Strategy strategy) {
  return parallel::row_of(strategy).has_groups;
}

/// Without several replicas there is nothing to divide, and in a pipeline gradients stay whole.
bool holds_less(const Product& product, const train::Recipe& recipe) {
  if (product.strategy == parallel::Strategy::replicas || has_groups(product.strategy)) return true;
  if (product.degrees.data == 1) return false;
  return product.strategy != parallel::Strategy::sharded_gradients || product.degrees.pipeline == 1 ||
         product.strategy == recipe.parallel.strategy;
}
}  // namespace

std::string name_of(const Product& product) {
  return parallel::product_name(product.degrees, product.strategy, product.recomputes);
}

std::string keys_of(const Product& product) {
  return fmt::format(
      "parallel.strategy = \"{}\", parallel.pipeline_ranks = {}, parallel.tensor_ranks = {}, parallel.recompute = "
      "\"{}\"",
      product.strategy, product.degrees.pipeline, product.degrees.tensor, product.recomputes ? "blocks" : "none");
}

train::Recipe with_product(const train::Recipe& recipe, const Product& product) {
  train::Recipe changed = recipe;
  auto& options = changed.parallel;
  options.strategy = product.strategy;
  options.pipeline_ranks = product.degrees.pipeline;
  options.tensor_ranks = product.degrees.tensor;
  options.context_ranks = product.degrees.context;
  options.recompute = product.recomputes ? parallel::Recompute::blocks : parallel::Recompute::none;
  if (options.pipeline_ranks != recipe.parallel.pipeline_ranks) options.stage_layers.clear();
  return changed;
}

std::vector<Product> products_of(const train::Recipe& recipe, const model::Description& model, int ranks) {
  std::vector<Product> products;
  const int stages = parallel::most_stages(model), most_stages = std::min(ranks, stages);
  const int most_tensor = static_cast<int>(std::min<std::int64_t>(ranks, recipe.parallel.tensor_shards));
  const auto context = static_cast<int>(recipe.parallel.context_ranks);
  for (int pipeline = 1; pipeline <= most_stages; ++pipeline)
    for (int tensor = 1; tensor <= most_tensor; ++tensor)
      for (const train::Way& way : train::ways()) {
        if (!way.no_forecast.empty() || has_groups(way.strategy) != has_groups(recipe.parallel.strategy)) continue;
        const int parts = pipeline * tensor * context;
        if (ranks % parts != 0) continue;
        const int groups = has_groups(way.strategy) ? static_cast<int>(recipe.parallel.local_sgd.groups) : 0;
        const Product product{{ranks / parts, pipeline, tensor, context, groups}, way.strategy, false};
        if (holds_less(product, recipe) && is_possible(recipe, model, stages, product)) products.push_back(product);
      }
  std::ranges::stable_sort(products, {}, [](const Product& product) { return product.degrees.parts(); });
  return products;
}

std::vector<Product> automatic_products(const train::Recipe& recipe, const model::Description& model, int ranks) {
  auto products = products_of(recipe, model, ranks);
  const auto& options = recipe.parallel;
  const bool holds = options.pipeline_ranks > 1 || options.tensor_ranks > 1 || !options.stage_layers.empty();
  if (holds || (products.empty() && options.context_ranks > 1)) {
    std::string reason;
    const auto degrees = parallel::nearest_degrees(options, ranks, parallel::most_stages(model), reason);
    auto nearest = recipe;
    nearest.parallel.context_ranks = degrees.context;
    if (degrees.context != options.context_ranks) products = products_of(nearest, model, ranks);
    if (holds) std::erase_if(products, [&](const Product& product) { return product.degrees != degrees; });
  }
  for (std::size_t i = 0, kept = products.size(); i < kept && options.recompute != parallel::Recompute::none; ++i) {
    if (!can_recompute(recipe, products[i])) continue;
    auto again = products[i];
    again.recomputes = true;
    if (options.recompute == parallel::Recompute::blocks)
      products[i] = again;
    else
      products.push_back(again);
  }
  std::ranges::stable_sort(
      products, {}, [](const Product& product) { return std::pair(product.degrees.parts(), product.recomputes); });
  return products;
}

std::optional<Product> own_product(const train::Recipe& recipe, const model::Description& model, int ranks,
                                   std::string& reason) try {
  Product own{parallel::nearest_degrees(recipe.parallel, ranks, parallel::most_stages(model), reason),
              recipe.parallel.strategy, recipe.parallel.recompute == parallel::Recompute::blocks};
  if (has_groups(own.strategy)) own.degrees.groups = static_cast<int>(recipe.parallel.local_sgd.groups);
  if (own.degrees.data == 1 && own.degrees.groups == 0) own.strategy = parallel::Strategy::replicas;
  if (own.recomputes && !can_recompute(recipe, own)) own.recomputes = false;
  return own;
} catch (const ConfigError& error) {
  reason = error.what();
  return std::nullopt;
}

bool can_recompute(const train::Recipe& recipe, const Product& product) try {
  auto changed = product;
  changed.recomputes = true;
  parallel::check(with_product(recipe, changed).parallel);
  return true;
} catch (const ConfigError&) {
  return false;
}

}  // namespace distdl::forecast
