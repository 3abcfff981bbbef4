// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::parallel {

/// Parts of the training state that each rank owns.
enum class Strategy {
  replicas,
  sharded,
  sharded_gradients,
  sharded_parameters,
  local_sgd,
  parameter_server,
  automatic
};

/// A row of the table of strategies.
struct StrategyRow {
  Named<Strategy> name;
  bool shards_moments = false;     ///< a rank has the moments of its shard only, where there are several ranks
  bool shards_gradients = false;   ///< a rank gives up the gradients of other parts of the model than its own
  bool shards_parameters = false;  ///< a rank has the parameters of its shard only, and gathers the others
  bool has_groups = false;         ///< groups of microbatches train parameters of their own: LocalSgdOptions
  bool has_servers = false;        ///< some ranks have roles of their own: ServerOptions
  bool can_compress = false;       ///< parallel.compression is possible
  /// When the bits of the result differ from those of replicas: "" always, or what follows the name; null: never.
  const char* differs = nullptr;
};
/// In the order of the enum.
constexpr std::array kStrategies{
    StrategyRow{.name = {Strategy::replicas, "replicas", "everything"}, .can_compress = true},
    StrategyRow{.name = {Strategy::sharded, "sharded",
                         "the optimizer's moments of a part of the model only, which it updates for all"},
                .shards_moments = true,
                .can_compress = true},
    StrategyRow{
        .name = {Strategy::sharded_gradients, "sharded_gradients", "the same, and the gradients of that part only"},
        .shards_moments = true,
        .shards_gradients = true,
        .can_compress = true},
    StrategyRow{
        .name = {Strategy::sharded_parameters, "sharded_parameters", "the same, and the parameters of that part only"},
        .shards_moments = true,
        .shards_gradients = true,
        .shards_parameters = true,
        .can_compress = true},
    StrategyRow{
        .name = {Strategy::local_sgd, "local_sgd",
                 "everything, of its groups of microbatches, each of which trains parameters of its own; these are "
                 "averaged every parallel.local_steps steps: the result is another one, but does not depend on the "
                 "ranks, docs/local-sgd.md"},
        .has_groups = true,
        .can_compress = true,
        .differs = ""},
    StrategyRow{
        .name = {Strategy::parameter_server, "parameter_server",
                 "everything but the optimizer's moments, which are at cluster.ps.tasks servers with a range of the "
                 "parameters each; workers pull parameters and push gradients: docs/parameter-server.md"},
        .has_servers = true,
        .can_compress = true,
        .differs = " with another mode than \"synchronous\""},
    StrategyRow{.name = {Strategy::automatic, "auto",
                         "chosen at each start for the ranks that there are, with parallel.recompute, and with "
                         "parallel.pipeline_ranks, parallel.tensor_ranks and parallel.stage_layers where these have "
                         "their defaults; parallel.context_ranks stays"}},
};
static_assert([] {
  for (std::size_t i = 0; i < kStrategies.size(); ++i)
    if (static_cast<std::size_t>(kStrategies[i].name.value) != i) return false;
  return true;
}());
constexpr const StrategyRow& row_of(Strategy strategy) {
  return kStrategies[static_cast<std::size_t>(strategy)];
}
constexpr auto choices_of(Strategy /*which*/) {
  std::array<Named<Strategy>, kStrategies.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kStrategies[i].name;
  return names;
}

/// The help of parallel.strategy.
const char* help_of_strategy();
/// Those with which parallel.compression is possible: "\"replicas\", ... or \"...\"".
std::string strategies_with_compression();

}  // namespace distdl::parallel
