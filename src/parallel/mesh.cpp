// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <optional>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {
namespace {
/// Why pipelines of so many ranks are not possible; empty if they are.
std::string obstacle_of(const Options& options, int ranks, std::int64_t pipeline, int most_stages) {
  if (ranks % pipeline != 0) return fmt::format("{} ranks do not divide into pipelines of {}", ranks, pipeline);
  if (pipeline > most_stages)
    return fmt::format("the model can be divided into at most {} stages, and each rank of a pipeline has one",
                       most_stages);
  if (ranks / pipeline > options.microbatches)
    return fmt::format("{} ranks are {} pipelines of {}, but there are only {} microbatches (parallel.microbatches)",
                       ranks, ranks / pipeline, pipeline, options.microbatches);
  return {};
}

/// The possible number of ranks of a pipeline that is nearest to the wanted one.
std::optional<int> nearest(const Options& options, int ranks, int most_stages) {
  std::optional<int> best;
  const auto distance = [&](std::int64_t pipeline) { return std::abs(pipeline - options.pipeline_ranks); };
  for (int pipeline = 1; pipeline <= ranks; ++pipeline)
    if (obstacle_of(options, ranks, pipeline, most_stages).empty() && (!best || distance(pipeline) <= distance(*best)))
      best = pipeline;
  return best;
}
}  // namespace

Mesh::Mesh(comm::Communicator& world, const Degrees& degrees) : world_(world), degrees_(degrees) {
  if (!has_pipeline()) return;
  const int rank = world.rank().value, place = rank % degrees.pipeline;
  data_ = world.split(place, rank);
  pipeline_ = world.split(rank / degrees.pipeline, rank);
}

Degrees degrees_of(const Options& options, int ranks, int most_stages) {
  check(options);
  const std::string obstacle = obstacle_of(options, ranks, options.pipeline_ranks, most_stages);
  if (obstacle.empty()) {
    const int pipeline = static_cast<int>(options.pipeline_ranks);
    return {ranks / pipeline, pipeline};
  }
  const auto other = nearest(options, ranks, most_stages);
  throw ConfigError(other ? fmt::format("parallel.pipeline_ranks is {}, but {}; the nearest possible number is {}",
                                        options.pipeline_ranks, obstacle, *other)
                          : fmt::format("{}; start fewer ranks", obstacle));
}

Degrees nearest_degrees(const Options& options, int ranks, int most_stages, std::string& reason) {
  reason = obstacle_of(options, ranks, options.pipeline_ranks, most_stages);
  const auto pipeline = nearest(options, ranks, most_stages);
  if (!pipeline) return degrees_of(options, ranks, most_stages);
  return {ranks / *pipeline, *pipeline};
}

}  // namespace distdl::parallel
