// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/forecast/product_forecast.hpp>

namespace distdl::forecast {

/// Throws ConfigError, which names the nearest choice, if there are no products: there are too few microbatches.
void require_possible(const Basis& basis, const std::vector<Product>& products);

/// A node's memory does not suffice.
class MemoryTooSmall : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// Throws MemoryTooSmall, which names the nearest change with which a node's memory suffices. `products`: the products
/// that were tried, of which none fits; not empty.
[[noreturn]] void refuse(const Basis& basis, const std::vector<ProductForecast>& products);

/// Throws MemoryTooSmall if a node's memory does not suffice for the product that the ranks of the job would use, and
/// ConfigError if parallel.strategy = "auto" has no choice. Checks nothing where there is no forecast of the memory:
/// GPUs, local SGD and parameter servers.
void require_memory(const train::Recipe& recipe, const Workload& work, const Machine& machine);

}  // namespace distdl::forecast
