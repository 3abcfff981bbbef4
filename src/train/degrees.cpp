// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <distdl/base/log.hpp>
#include <distdl/data/source.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/degrees.hpp>

namespace distdl::train {
namespace {
/// "2 pipelines of 4 stages", "3 tensor groups of 2 ranks", "3 context groups of 2 ranks"
std::string text_of(const parallel::Degrees& degrees, bool has_stages, bool has_chunks) {
  const auto counted = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  if (has_chunks) return counted(degrees.data, "context group") + " of " + counted(degrees.context, "rank");
  if (!has_stages) return counted(degrees.data, "tensor group") + " of " + counted(degrees.tensor, "rank");
  const auto text = counted(degrees.data, "pipeline") + " of " + counted(degrees.pipeline, "stage");
  return degrees.tensor == 1 ? text : text + " of " + counted(degrees.tensor, "rank");
}

/// `reason`: why the degrees are not those that the options ask for.
void log_degrees(const parallel::Degrees& degrees, const parallel::Options& options, const std::string& reason) {
  const bool has_stages = options.pipeline_ranks > 1, has_shards = options.tensor_ranks > 1;
  const bool has_chunks = options.context_ranks > 1;
  if (!has_stages && reason.empty()) return;
  std::string wanted = has_stages ? fmt::format("parallel.pipeline_ranks = {}", options.pipeline_ranks) : "";
  if (has_shards)
    wanted += fmt::format("{}parallel.tensor_ranks = {}", has_stages ? " and " : "", options.tensor_ranks);
  if (has_chunks) wanted = fmt::format("parallel.context_ranks = {}", options.context_ranks);
  log(reason.empty() ? Severity::info : Severity::warning, "{} rank{}: {}{}", degrees.ranks(),
      degrees.ranks() == 1 ? "" : "s", text_of(degrees, has_stages, has_chunks),
      reason.empty() ? "" : fmt::format(", not of {}, because {}; no bit of the result depends on it", wanted, reason));
}
}  // namespace

parallel::Degrees degrees_for(const Recipe& recipe, const comm::Communicator& communicator) {
  const parallel::Options& options = recipe.parallel;
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
  if (communicator.rank() == Rank(0)) log_degrees(degrees, options, reason);
  return degrees;
}

}  // namespace distdl::train
