// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <tuple>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {
namespace {
/// The ranks that hold the model together: of so many stages, each of which has its tensor shards on so many, or that
/// share sequences, which excludes the others.
struct Parts {
  std::int64_t pipeline, tensor, context;
  std::int64_t ranks() const { return pipeline * tensor * context; }
  bool has_both() const { return pipeline > 1 && tensor > 1; }
};

Parts wanted_by(const Options& options) {
  return {options.pipeline_ranks, std::max<std::int64_t>(options.tensor_ranks, 1),
          std::max<std::int64_t>(options.context_ranks, 1)};
}

/// "parallel.pipeline_ranks is 2 and parallel.tensor_ranks is 4"
std::string keys_of(const Parts& wanted) {
  if (wanted.context > 1) return fmt::format("parallel.context_ranks is {}", wanted.context);
  auto pipeline = fmt::format("parallel.pipeline_ranks is {}", wanted.pipeline);
  if (wanted.tensor == 1) return pipeline;
  auto tensor = fmt::format("parallel.tensor_ranks is {}", wanted.tensor);
  return wanted.has_both() ? pipeline + " and " + tensor : tensor;
}

/// "pipelines of 2 times 4 ranks"
std::string groups_of(const Parts& parts) {
  if (parts.has_both()) return fmt::format("pipelines of {} times {} ranks", parts.pipeline, parts.tensor);
  if (parts.context > 1) return fmt::format("context groups of {}", parts.context);
  return parts.tensor > 1 ? fmt::format("tensor groups of {}", parts.tensor)
                          : fmt::format("pipelines of {}", parts.pipeline);
}

/// Why such parts are not possible; empty if they are.
std::string obstacle_of(const Options& options, int most_stages, int ranks, const Parts& parts) {
  const int each = stages_per_rank(options, parts.pipeline);
  if (ranks % parts.ranks() != 0) return fmt::format("{} ranks do not divide into {}", ranks, groups_of(parts));
  if (parts.pipeline > 1 && parts.pipeline * each > most_stages)
    return fmt::format("the model can be divided into at most {} stages, and each of so many ranks needs {}",
                       most_stages, each);
  if (parts.tensor > options.tensor_shards)
    return fmt::format("there are only {} tensor shards (parallel.tensor_shards), and each of so many ranks needs one",
                       options.tensor_shards);
  if (parts.context > options.context_chunks)
    return fmt::format(
        "there are only {} chunks of a sequence (parallel.context_chunks), and each of so many ranks "
        "needs one",
        options.context_chunks);
  if (ranks / parts.ranks() > options.microbatches)
    return fmt::format("{} ranks are {} {}, but there are only {} microbatches (parallel.microbatches)", ranks,
                       ranks / parts.ranks(), groups_of(parts), options.microbatches);
  return {};
}

/// The possible ones whose number of ranks is nearest to that of the wanted ones; then those that are themselves; of
/// two the larger ones.
std::optional<Parts> nearest(const Options& options, int most_stages, int ranks) {
  const Parts wanted = wanted_by(options);
  const auto distance = [&](const Parts& parts) {
    return std::tuple(std::abs(parts.ranks() - wanted.ranks()), -parts.ranks(),
                      std::abs(parts.pipeline - wanted.pipeline), -parts.pipeline);
  };
  std::optional<Parts> best;
  const auto consider = [&](const Parts& parts) {
    if (obstacle_of(options, most_stages, ranks, parts).empty() && (!best || distance(parts) < distance(*best)))
      best = parts;
  };
  for (int context = 1; context <= ranks && wanted.context > 1; ++context) consider({1, 1, context});
  for (int pipeline = 1; pipeline <= (wanted.pipeline > 1 ? ranks : 1); ++pipeline)
    for (int tensor = 1; tensor <= (wanted.tensor > 1 ? ranks / pipeline : 1); ++tensor)
      consider({pipeline, tensor, 1});
  return best;
}

Degrees degrees_with(int ranks, const Parts& parts) {
  return {.data = ranks / static_cast<int>(parts.ranks()),
          .pipeline = static_cast<int>(parts.pipeline),
          .tensor = static_cast<int>(parts.tensor),
          .context = static_cast<int>(parts.context)};
}

std::string choice_of(const Parts& wanted, const Parts& other) {
  if (wanted.has_both()) return fmt::format("numbers are {} and {}", other.pipeline, other.tensor);
  return fmt::format("number is {}", other.ranks());
}
}  // namespace

Mesh::Mesh(comm::Communicator& world, const Degrees& degrees) : world_(world), degrees_(degrees) {
  if (!has_parts()) return;
  const int rank = world.rank().value, tensor = rank % degrees.tensor, parts = degrees.parts();
  data_ = world.split(rank % parts, rank);
  if (has_context()) context_ = world.split(rank / parts, rank);
  if (has_pipeline()) pipeline_ = world.split(rank / parts * degrees.tensor + tensor, rank);
  if (has_tensor()) tensor_ = world.split(rank / degrees.tensor, rank);
  if (has_pipeline() && has_tensor()) replica_ = world.split(rank / parts, rank);
}

Degrees degrees_of(const Options& options, int ranks, int most_stages) {
  check(options);
  const Parts wanted = wanted_by(options);
  const std::string obstacle = obstacle_of(options, most_stages, ranks, wanted);
  if (obstacle.empty()) return degrees_with(ranks, wanted);
  const auto other = nearest(options, most_stages, ranks);
  throw ConfigError(
      other ? fmt::format("{}, but {}; the nearest possible {}", keys_of(wanted), obstacle, choice_of(wanted, *other))
            : fmt::format("{}; start fewer ranks", obstacle));
}

Degrees nearest_degrees(const Options& options, int ranks, int most_stages, std::string& reason) {
  reason = obstacle_of(options, most_stages, ranks, wanted_by(options));
  const auto parts = nearest(options, most_stages, ranks);
  return parts ? degrees_with(ranks, *parts) : degrees_of(options, ranks, most_stages);
}

}  // namespace distdl::parallel
