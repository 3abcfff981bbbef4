// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <distdl/base/log.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/parallel/tensor_placement.hpp>
#include <distdl/train/ranks/agreement.hpp>
#include <distdl/train/ranks/degrees.hpp>

namespace distdl::train {
namespace {
/// Which of the numbers of ranks are above 1.
struct Kinds {
  bool stages = false, chunks = false, shards = false;
};

/// "2 pipelines of 4 stages", "3 tensor groups of 2 ranks", "3 context groups of 2 times 2 ranks"
std::string text_of(const parallel::Degrees& degrees, const Kinds& wanted) {
  const auto counted = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const char* const group = wanted.stages ? "pipeline" : wanted.chunks ? "context group" : "tensor group";
  auto text = counted(degrees.data, group);
  if (wanted.stages) text += " of " + counted(degrees.pipeline, "stage");
  const bool has_chunks = wanted.stages ? degrees.context > 1 : wanted.chunks;
  const bool has_shards = has_chunks || wanted.stages ? degrees.tensor > 1 : wanted.shards;
  if (!has_chunks && !has_shards) return text;
  text += " of ";
  if (has_chunks && has_shards) text += fmt::format("{} times ", degrees.context);
  return text + counted(has_shards ? degrees.tensor : degrees.context, "rank");
}

/// `reason`: why the degrees are not those that the options ask for.
void log_degrees(const parallel::Degrees& degrees, const parallel::Options& options, const std::string& reason) {
  const Kinds kinds{options.pipeline_ranks > 1, options.context_ranks > 1, options.tensor_ranks > 1};
  if (!kinds.stages && reason.empty()) return;
  std::vector<std::string> wanted;
  if (kinds.stages) wanted.push_back(fmt::format("parallel.pipeline_ranks = {}", options.pipeline_ranks));
  if (kinds.chunks) wanted.push_back(fmt::format("parallel.context_ranks = {}", options.context_ranks));
  if (kinds.shards) wanted.push_back(fmt::format("parallel.tensor_ranks = {}", options.tensor_ranks));
  log(reason.empty() ? Severity::info : Severity::warning, "{} rank{}: {}{}", degrees.ranks(),
      degrees.ranks() == 1 ? "" : "s", text_of(degrees, kinds),
      reason.empty() ? ""
                     : fmt::format(", not of {}, because {}; no bit of the result depends on it",
                                   fmt::join(wanted, " and "), reason));
}
}  // namespace

parallel::Degrees degrees_for(const Recipe& recipe, const comm::Communicator& communicator) {
  const parallel::Options& options = recipe.parallel;
  if (parallel::row_of(options.strategy).has_groups)
    return {.data = communicator.size(), .groups = static_cast<int>(options.local_sgd.groups)};
  if (options.pipeline_ranks == 1 && options.tensor_ranks == 1 && options.context_ranks == 1 &&
      options.stage_layers.empty())
    return {.data = communicator.size()};
  const auto sources =
      data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed));
  const auto model = model_of(recipe, *sources.training);
  if (!options.stage_layers.empty()) parallel::check_stages(options, model);
  std::string reason;
  const auto degrees = parallel::nearest_degrees(options, communicator.size(), parallel::most_stages(model), reason);
  if (!reason.empty() && !options.stage_layers.empty()) reason += "; parallel.stage_layers fits those only";
  if (communicator.rank() != Rank(0)) return degrees;
  log_degrees(degrees, options, reason);
  const auto node_of = [&](int rank) { return communicator.host(Rank(rank)); };
  if (const auto divided = parallel::divided_tensor_group(degrees, node_of); !divided.empty())
    log(Severity::warning, "{}", divided);
  return degrees;
}

std::optional<parallel::Cluster> cluster_for(const Recipe& recipe, comm::Communicator& communicator,
                                             Clock::duration timeout) {
  if (!parallel::row_of(recipe.parallel.strategy).has_servers) return std::nullopt;
  std::vector<std::string> hosts;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value) hosts.push_back(communicator.host(rank));
  std::vector<bool> on_gpu;
  if (recipe.parallel.servers.placement == parallel::server::Placement::by_device) {
    std::string mine;
    agree(communicator, timeout,
          [&] { mine = kernels::make_backend(recipe.kernels)->memory_is_host() ? "processor" : "gpu"; });
    for (const auto& device : communicator.all_gather_strings(mine)) on_gpu.push_back(device == "gpu");
  }
  auto cluster = parallel::cluster_of(recipe.parallel, std::move(hosts), on_gpu);
  if (communicator.rank() != Rank(0)) return cluster;
  log(Severity::info, "parameter server: {}", parallel::text_of(cluster));
  if (const auto shortage = parallel::shortage_of(recipe.parallel, cluster); !shortage.empty())
    log(Severity::warning, "parameter server: {}: there are {} rank{} on these nodes, and cluster.ps.tasks is {}",
        shortage, communicator.size(), communicator.size() == 1 ? "" : "s", recipe.parallel.servers.tasks);
  return cluster;
}

}  // namespace distdl::train
