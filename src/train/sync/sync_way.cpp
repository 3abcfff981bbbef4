// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include <distdl/base/checked.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/sync/sync_engine.hpp>
#include <distdl/train/sync/sync_way.hpp>

namespace distdl::train {
namespace {
/// Most bytes of the other ranks' parameters here: while a block of layers computes, the next one is gathered.
std::int64_t gathered_bytes(const model::ModelTensors& tensors, const parallel::Options& options, int ranks) {
  const std::size_t all = tensors.layout.size();
  auto floats = std::min(parallel::least_in_turn(options, all), all);
  for (const auto& view : tensors.layout.tensors()) floats = std::max(floats, view.count);
  return static_cast<std::int64_t>(2 * floats * sizeof(float)) / ranks * (ranks - 1);
}

/// Bytes in memory that ranks share: gradients that are not given back, and parameters that other ranks update.
std::int64_t shared_bytes(std::int64_t arena, const parallel::Options& options, const RanksOfMachine& ranks) {
  const int data = ranks.degrees.data;
  if (data == 1) return 0;
  const bool frees = parallel::gives_gradients_back(options, ranks.degrees);
  const auto& row = parallel::row_of(options.strategy);
  const std::int64_t parameters = !row.shards_moments ? 0 : row.shards_parameters ? arena / data : arena;
  return (frees ? 0 : ranks.devices * arena) + parameters;
}

/// Bytes of the parameters, of the gradients and of the optimizer's state.
ArenaBytes memory_of_replica(const RankMemory& rank) {
  const auto& [tensors, options, optim, ranks] = rank;
  const auto arena = bytes_of_arena(tensors);
  const auto state = state_arenas(options.strategy, optim, ranks.degrees.data > 1);
  const bool frees = parallel::gives_gradients_back(options, ranks.degrees);
  const bool share = parallel::share_parameters(options, ranks.degrees, ranks.here >= ranks.degrees.ranks());
  const std::int64_t sharded_arenas = state.shards() + (frees ? 1 : 0);
  const std::int64_t residuals = !options.compression.is_on() ? 0 : 1;
  const auto whole =
      checked_product<std::int64_t>(arena, 2 + state.moments + state.averages + residuals - sharded_arenas,
                                    "the memory for parameters, gradients and moments");
  const std::int64_t lacks = parallel::codes_changes(options) && ranks.degrees.data > 1 ? 1 : 0;
  const auto shard = arena / ranks.degrees.data * (sharded_arenas + lacks);
  const auto all = checked_sum(checked_sum(whole, shard, "a rank's memory"),
                               state.shards_values && !share ? gathered_bytes(tensors, options, ranks.degrees.data) : 0,
                               "a rank's memory");
  return {with_devices(all, arena, ranks.devices - 1), shared_bytes(arena, options, ranks)};
}

/// The nearest choice of parallel.strategy that takes less and is possible, if there is one.
std::string smaller_strategy(const parallel::Options& options, const parallel::Degrees& degrees) {
  using enum parallel::Strategy;
  if (options.strategy == sharded_parameters) return "";
  if (options.strategy == sharded && degrees.pipeline == 1) return R"(, or parallel.strategy = "sharded_gradients")";
  if (options.strategy == sharded || options.strategy == sharded_gradients)
    return R"(, or parallel.strategy = "sharded_parameters")";
  return R"(, or parallel.strategy = "sharded" on several ranks)";
}

std::unique_ptr<Engine> make_sync(const EngineSetup& setup) {
  return std::make_unique<SyncEngine>(setup);
}
}  // namespace

Way sync_way(parallel::Strategy strategy) {
  const auto excludes_nothing = [](const Recipe&) {};
  const auto has_no_keys = [](const parallel::Options&, std::map<std::string, std::string>&) {};
  return {strategy, excludes_nothing, memory_of_replica, has_no_keys, smaller_strategy, make_sync};
}

}  // namespace distdl::train
