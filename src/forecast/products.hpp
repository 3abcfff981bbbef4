// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <distdl/model/description.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::forecast {

/// A way to divide training among the ranks. No bit of the result depends on it.
struct Product {
  parallel::Degrees degrees;
  OneOf<parallel::Strategy> strategy = parallel::Strategy::replicas;
  bool recomputes = false;  ///< parallel.recompute = "blocks"
  bool operator==(const Product&) const = default;
};

/// A choice of parallel.strategy = "auto" for some ranks, and the reason.
struct Choice {
  Product product;
  std::string reason;  ///< begins with name_of(product)
};

/// Returns the name as parallel::product_name(): "4x2x1 sharded, blocks".
std::string name_of(const Product& product);
/// Returns the keys of a job file with which ranks train so.
std::string keys_of(const Product& product);

/// Returns the recipe with this product in place of its own.
train::Recipe with_product(const train::Recipe& recipe, const Product& product);

/// Returns all products with so many ranks, which keep activations, the simplest first: of equally good ones, the first
/// is chosen. Each has the recipe's global batch, tensor shards and context ranks, and
/// with local SGD its groups, as no other product then. A strategy with which ranks would
/// own the same as with one before is left out, unless it is the recipe's. Empty if there are too few microbatches.
std::vector<Product> products_of(const train::Recipe& recipe, const model::Description& model, int ranks);

/// Returns the products among which parallel.strategy = "auto" chooses, the simplest first: replicas, the other
/// strategies, the same with activations that are computed again, then the next number of ranks that own the model
/// together. If the recipe's recomputation and numbers of ranks that own the model together are not the defaults, all
/// products have them; they always have its parallel.context_ranks. Where these are not possible, the nearest possible
/// ones count, as without "auto". Throws ConfigError if there are none.
std::vector<Product> automatic_products(const train::Recipe& recipe, const model::Description& model, int ranks);

/// Returns the product that the recipe asks for, or that its ranks would choose instead; nothing if they would refuse.
/// `reason`: why, or empty.
std::optional<Product> own_product(const train::Recipe& recipe, const model::Description& model, int ranks,
                                   std::string& reason);

/// True if the layers run on a GPU wherever they run. "auto" may find one, which only kernels::make_backend() can say.
inline bool is_for_gpu(const kernels::Options& kernels) {
  return kernels.backend == "cuda";
}

/// True if the program can train so and compute activations again.
bool can_recompute(const train::Recipe& recipe, const Product& product);

}  // namespace distdl::forecast
