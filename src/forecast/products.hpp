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

/// What parallel.strategy = "auto" means for some ranks, and why.
struct Choice {
  Product product;
  std::string reason;  ///< begins with name_of(product)
};

/// As parallel::product_name(): "4x2x1 sharded, blocks".
std::string name_of(const Product& product);
/// The keys of a job file with which ranks train so.
std::string keys_of(const Product& product);

/// The recipe with this product in place of its own.
train::Recipe with_product(const train::Recipe& recipe, const Product& product);

/// All that training can do with so many ranks, which keep activations, the simplest first: of equally good ones, the
/// first is chosen. Each has the recipe's global batch, tensor shards and context ranks. Where a strategy would hold
/// the same as one before, it is left out, unless it is the recipe's. Empty if there are too few microbatches.
std::vector<Product> products_of(const train::Recipe& recipe, const model::Description& model, int ranks);

/// Those among which parallel.strategy = "auto" chooses, the simplest first: replicas, then the other strategies, then
/// the same with activations that are computed again, then the next number of ranks that hold the model together. They
/// have what the recipe says of recomputation and of ranks that hold the model together, if it says anything else than
/// the defaults, and its parallel.context_ranks; where these are not possible, the nearest that are, as without "auto".
/// Throws ConfigError if there are none.
std::vector<Product> automatic_products(const train::Recipe& recipe, const model::Description& model, int ranks);

/// What the recipe asks for, or what its ranks would do instead; nothing if they would refuse. `reason`: why, or empty.
std::optional<Product> own_product(const train::Recipe& recipe, const model::Description& model, int ranks,
                                   std::string& reason);

/// Whether the layers run on a GPU wherever they run. "auto" may find one, which only kernels::make_backend() tells.
inline bool is_for_gpu(const kernels::Options& kernels) {
  return kernels.backend == "cuda";
}

/// Whether the program can train so and compute activations again.
bool can_recompute(const train::Recipe& recipe, const Product& product);

}  // namespace distdl::forecast
