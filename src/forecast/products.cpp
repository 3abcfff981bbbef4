// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/forecast/products.hpp>
#include <distdl/parallel/stages.hpp>

namespace distdl::forecast {
namespace {
/// Whether the program takes this product, by its own checks.
bool is_possible(const train::Recipe& recipe, const model::Description& model, const Product& product) try {
  const auto changed = with_product(recipe, product);
  train::check(changed);
  if (!changed.parallel.stage_layers.empty()) parallel::check_stages(changed.parallel, model);
  return parallel::degrees_of(changed.parallel, product.degrees.ranks(), parallel::most_stages(model)) ==
         product.degrees;
} catch (const ConfigError&) {
  return false;
}

/// Without several replicas there is nothing to divide, and where ranks hold the model together their gradients stay
/// whole.
bool holds_less(const Product& product, const train::Recipe& recipe) {
  if (product.strategy == parallel::Strategy::replicas) return true;
  if (product.degrees.data == 1) return false;
  return product.strategy == parallel::Strategy::sharded || product.degrees.parts() == 1 ||
         product.strategy == recipe.parallel.strategy;
}
}  // namespace

std::string name_of(const Product& product) {
  const auto& degrees = product.degrees;
  return fmt::format("{}x{}x{} {}{}", degrees.data, degrees.pipeline, degrees.tensor, product.strategy,
                     product.recomputes ? ", blocks" : "");
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
  options.recompute = product.recomputes ? parallel::Recompute::blocks : parallel::Recompute::none;
  if (options.pipeline_ranks != recipe.parallel.pipeline_ranks) options.stage_layers.clear();
  return changed;
}

std::vector<Product> products_of(const train::Recipe& recipe, const model::Description& model, int ranks) {
  std::vector<Product> products;
  const int most_stages = std::min(ranks, parallel::most_stages(model));
  const int most_tensor = static_cast<int>(std::min<std::int64_t>(ranks, recipe.parallel.tensor_shards));
  for (int pipeline = 1; pipeline <= most_stages; ++pipeline)
    for (int tensor = 1; tensor <= most_tensor; ++tensor)
      for (const auto& [strategy, name, help] : choices_of(parallel::Strategy())) {
        if (ranks % (pipeline * tensor) != 0) continue;
        const Product product{{ranks / (pipeline * tensor), pipeline, tensor}, strategy, false};
        if (holds_less(product, recipe) && is_possible(recipe, model, product)) products.push_back(product);
      }
  std::ranges::stable_sort(products, {}, [](const Product& product) { return product.degrees.parts(); });
  return products;
}

std::optional<Product> own_product(const train::Recipe& recipe, const model::Description& model, int ranks,
                                   std::string& reason) try {
  Product own{parallel::nearest_degrees(recipe.parallel, ranks, parallel::most_stages(model), reason),
              recipe.parallel.strategy, recipe.parallel.recompute == parallel::Recompute::blocks};
  if (own.degrees.data == 1) own.strategy = parallel::Strategy::replicas;
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
