// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include <distdl/base/checked.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/server/range_division.hpp>
#include <distdl/parallel/server/step_parts.hpp>
#include <distdl/train/engine/whole_models.hpp>
#include <distdl/train/server/server_engine.hpp>
#include <distdl/train/server/server_way.hpp>

namespace distdl::train {
namespace {
void check_servers(const Recipe& recipe) {
  check_whole_models(recipe, {"a worker has the whole model",
                              parallel::repeats_bits(recipe.parallel) ? nullptr : "updates are not counted in steps",
                              "audits compare what all ranks hold, but a server alone holds the moments of its range",
                              "no server has all gradients, one of which may overflow"});
  require(recipe.optim.clip_norm == 0,
          "parallel.strategy = \"parameter_server\" and optim.clip_norm = {} exclude each other: no server has all "
          "gradients, of which that is the norm; use optim.clip_norm = 0, or parallel.strategy = \"sharded\"",
          recipe.optim.clip_norm);
}

/// The arenas of a server's range: moments, versions, and gradients on their way and in their sum. With partners also
/// all that is in a range, for a second one, and two copies of both in the node's memory.
std::int64_t arenas_of_range(const parallel::Options& options, std::int64_t moments, std::int64_t state,
                             std::int64_t servers) {
  constexpr std::int64_t kOfRange = 4, kPartnersGradients = 3, kKept = 2;
  if (!parallel::keeps_ranges(options)) return kOfRange + moments;
  const std::int64_t state_of_range = 1 + state, ranges = servers > 1 ? 2 : 1;
  return kOfRange + moments + (ranges - 1) * (state_of_range + kPartnersGradients) + kKept * ranges * state_of_range;
}

/// Parameters, those that the worker has pulled, gradients and partial sums, averages, with compression residuals and
/// codes, and what is of the server's range, where that has grown as far as it may.
ArenaBytes memory_of_servers(const RankMemory& rank) {
  const auto& [tensors, options, optim, ranks] = rank;
  const auto arena = bytes_of_arena(tensors);
  const auto state = optim::state_of(optim);
  const auto moments = std::ranges::count(state, optim::StateArena::Kind::moment, &optim::StateArena::kind);
  const auto cluster = parallel::cluster_of(options, ranks.degrees.data);
  const auto servers = std::ssize(cluster.servers);
  const auto parts = parallel::server::parts_of(options, static_cast<int>(cluster.workers.size()));
  const std::int64_t sums = parallel::server::most_partial_sums(parts);
  const std::int64_t compressed = !options.compression.is_on() ? 0 : 2;
  const auto of_worker = checked_product<std::int64_t>(arena, 3 + sums + compressed + std::ssize(state) - moments,
                                                       "the memory of a worker");
  const auto of_server = checked_product<std::int64_t>(
      arena / servers * std::min<std::int64_t>(servers, parallel::server::kMostGrowth),
      arenas_of_range(options, moments, std::ssize(state), servers), "the memory of a server");
  const auto all = checked_sum(of_worker, of_server, "the memory of a rank");
  return {with_devices(all, arena, (ranks.devices - 1) * (1 + sums)), 0};
}

/// With `synchronous` servers the bits are those of replicas.
void leave_out_servers(const parallel::Options& options, std::map<std::string, std::string>& identity) {
  const bool is_late = !parallel::repeats_bits(options);
  if (!is_late)
    for (const char* key : {"parallel.server_mode", "parallel.delay_compensation"}) identity[key] = "none";
  if (!is_late || options.servers.mode != parallel::server::Mode::bounded) identity["parallel.staleness"] = "none";
}

std::string less_than_servers(const parallel::Options&, const parallel::Degrees&) {
  return R"(, or parallel.strategy = "replicas")";
}

std::unique_ptr<Engine> make_servers(const EngineSetup& setup) {
  return std::make_unique<ServerEngine>(setup);
}
}  // namespace

Way server_way() {
  return {parallel::Strategy::parameter_server,
          check_servers,
          memory_of_servers,
          leave_out_servers,
          less_than_servers,
          make_servers,
          "there is no forecast for its messages"};
}

}  // namespace distdl::train
