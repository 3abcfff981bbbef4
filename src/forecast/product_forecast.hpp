// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/forecast/forecast.hpp>

namespace distdl::forecast {

/// What forecasts of all products have in common.
struct Basis {
  const train::Recipe& recipe;
  const Workload& work;
  const Machine& machine;
  Cluster cluster;
  MeasuredWork measured;  ///< or counted
  bool has_spare_processor = true;
  NetworkFacts network;
  double evaluator_bytes = 0;  ///< of a network for the last, shorter microbatch of an evaluation
  std::vector<std::string> warnings;
};
/// Measured figures where there are some, and a warning for each that is missing.
Basis basis_of(const train::Recipe& recipe, const Workload& work, const Machine& machine);

/// Bytes of a node.
double node_memory(const Machine& machine);

/// The recipe with this product in place of its own.
train::Recipe with_product(const train::Recipe& recipe, const Product& product);

/// Memory, step and traffic of one product. Throws ConfigError if there are fewer microbatches than ranks.
ProductForecast forecast_product(const Basis& basis, const Product& product);

}  // namespace distdl::forecast
