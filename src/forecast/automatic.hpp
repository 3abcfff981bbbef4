// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/forecast/product_forecast.hpp>

// The choice of parallel.strategy = "auto" for the ranks that there are, and how their pipelines divide the layers.
namespace distdl::forecast {

/// Chooses one of automatic_products(). If this model and, for several ranks, the network were measured on such nodes,
/// it is the simplest product of those that fit and are within 1% of the fastest. More ranks that own the model
/// together are not considered once that gets slower. Without measurements it is the simplest that fits, because
/// assumptions should not decide. Adds forecasts that are not among the `known` ones to them. If none fits, returns
/// nothing, but with "auto" throws ConfigError, which names the nearest choice.
std::optional<Choice> choose(const Basis& basis, std::vector<ProductForecast>& known);

/// Returns replicas if the ranks compute on GPUs, whose memory has no forecast; else nothing. Throws ConfigError if the
/// recipe's numbers of ranks that own the model together are not possible.
std::optional<Choice> choice_on_device(const train::Recipe& recipe, const model::Description& model, int ranks);

/// A recipe with the choice in place of "auto".
struct Decision {
  train::Recipe recipe;
  std::string product;  ///< name_of()
  std::string reason;
  std::vector<double> stage_costs;  ///< for train::Setting
};

/// Collective. Rank 0 chooses for all, as "distdl plan" says for as many nodes and ranks: the product, if the recipe
/// has "auto", and the stages of pipelines. Nodes with different numbers of ranks count as nodes of one rank each.
/// `memory`: bytes of this rank's node. `add_figures` on rank 0 adds the measurements of such nodes. Rank 0's exception
/// is thrown on all ranks.
Decision decide(const train::Recipe& recipe, comm::Communicator& communicator, std::uint64_t memory,
                const std::function<void(Machine&)>& add_figures);

}  // namespace distdl::forecast
