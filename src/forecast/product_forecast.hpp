// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include <distdl/forecast/forecast.hpp>

namespace distdl::forecast {

/// Figures that forecasts of all products have in common.
struct Basis {
  const train::Recipe& recipe;
  const Workload& work;
  const Machine& machine;
  Cluster cluster;
  MeasuredWork measured;     ///< measured, or else counted
  bool is_measured = false;  ///< true: not counted
  bool has_spare_processor = true;
  std::vector<std::size_t> places;  ///< places of the whole network
  std::shared_ptr<DryNetworks> networks;
  std::vector<std::string> warnings;
  StageCosts stage_costs = {};
  /// Best bucket of replicas of one rank each, once it was computed: the same for each strategy.
  std::shared_ptr<std::optional<std::size_t>> best_bucket = std::make_shared<std::optional<std::size_t>>();

  /// parallel.strategy = "auto"
  bool is_automatic() const { return recipe.parallel.strategy == parallel::Strategy::automatic; }
};
/// Collects measured figures where there are some, and adds a warning for each that is missing.
Basis basis_of(const train::Recipe& recipe, const Workload& work, const Machine& machine);

/// Returns the bytes of a node.
double node_memory(const Machine& machine);

/// `products`: in the order of their simplicity. Returns the first one that fits and is within 1% of the fastest that
/// fits; the end: none fits.
std::vector<ProductForecast>::const_iterator best_of(const std::vector<ProductForecast>& products);

/// Returns memory, step and traffic of one product, which must be possible.
ProductForecast forecast_product(const Basis& basis, const Product& product);

}  // namespace distdl::forecast
