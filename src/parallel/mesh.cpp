// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <optional>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {
namespace {
/// The ranks that hold the model together. check() refuses pipelines and tensor groups at once, so it is one of them.
struct Parts {
  const char* key;
  const char* what;  ///< "pipelines"
  std::int64_t wanted;
  std::int64_t most;
  const char* most_of;  ///< "stages"
};

Parts parts_of(const Options& options, int most_stages) {
  if (options.tensor_ranks > 1)
    return {"parallel.tensor_ranks", "tensor groups", options.tensor_ranks, options.tensor_shards, "tensor shards"};
  return {"parallel.pipeline_ranks", "pipelines", options.pipeline_ranks, most_stages, "stages"};
}

/// Why so many are not possible; empty if they are.
std::string obstacle_of(const Options& options, const Parts& parts, int ranks, std::int64_t count) {
  if (ranks % count != 0) return fmt::format("{} ranks do not divide into {} of {}", ranks, parts.what, count);
  if (count > parts.most)
    return fmt::format("the model can be divided into at most {} {}, and each of so many ranks needs one", parts.most,
                       parts.most_of);
  if (ranks / count > options.microbatches)
    return fmt::format("{} ranks are {} {} of {}, but there are only {} microbatches (parallel.microbatches)", ranks,
                       ranks / count, parts.what, count, options.microbatches);
  return {};
}

/// The possible number that is nearest to the wanted one.
std::optional<int> nearest(const Options& options, const Parts& parts, int ranks) {
  std::optional<int> best;
  const auto distance = [&](std::int64_t count) { return std::abs(count - parts.wanted); };
  for (int count = 1; count <= ranks; ++count)
    if (obstacle_of(options, parts, ranks, count).empty() && (!best || distance(count) <= distance(*best)))
      best = count;
  return best;
}

Degrees degrees_with(const Options& options, int ranks, int count) {
  if (options.tensor_ranks > 1) return {.data = ranks / count, .tensor = count};
  return {.data = ranks / count, .pipeline = count};
}
}  // namespace

Mesh::Mesh(comm::Communicator& world, const Degrees& degrees) : world_(world), degrees_(degrees) {
  if (!has_parts()) return;
  const int rank = world.rank().value, tensor = rank % degrees.tensor, parts = degrees.parts();
  data_ = world.split(rank % parts, rank);
  if (has_pipeline()) pipeline_ = world.split(rank / parts * degrees.tensor + tensor, rank);
  if (has_tensor()) tensor_ = world.split(rank / degrees.tensor, rank);
  if (has_pipeline() && has_tensor()) replica_ = world.split(rank / parts, rank);
}

Degrees degrees_of(const Options& options, int ranks, int most_stages) {
  check(options);
  const Parts parts = parts_of(options, most_stages);
  const std::string obstacle = obstacle_of(options, parts, ranks, parts.wanted);
  if (obstacle.empty()) return degrees_with(options, ranks, static_cast<int>(parts.wanted));
  const auto other = nearest(options, parts, ranks);
  throw ConfigError(other ? fmt::format("{} is {}, but {}; the nearest possible number is {}", parts.key, parts.wanted,
                                        obstacle, *other)
                          : fmt::format("{}; start fewer ranks", obstacle));
}

Degrees nearest_degrees(const Options& options, int ranks, int most_stages, std::string& reason) {
  const Parts parts = parts_of(options, most_stages);
  reason = obstacle_of(options, parts, ranks, parts.wanted);
  const auto count = nearest(options, parts, ranks);
  if (!count) return degrees_of(options, ranks, most_stages);
  return degrees_with(options, ranks, *count);
}

}  // namespace distdl::parallel
