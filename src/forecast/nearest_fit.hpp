// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/forecast/product_forecast.hpp>

namespace distdl::forecast {

/// Throws ConfigError, which names the nearest choice, if there are no products: there are too few microbatches.
void require_possible(const Basis& basis, const std::vector<Product>& products);

/// Throws ConfigError, which names the nearest change with which a node's memory suffices. `products`: those that were
/// tried, of which none fits; not empty.
[[noreturn]] void refuse(const Basis& basis, const std::vector<ProductForecast>& products);

}  // namespace distdl::forecast
