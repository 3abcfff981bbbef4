// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {
namespace {
/// The numbers of ranks that own the model together: ranks of the stages, of the context chunks, of the tensor shards.
struct Parts {
  std::int64_t pipeline, context, tensor;
  std::int64_t ranks() const { return pipeline * context * tensor; }
  std::array<std::int64_t, 3> all() const { return {pipeline, context, tensor}; }
};
constexpr std::array kKeys{"parallel.pipeline_ranks", "parallel.context_ranks", "parallel.tensor_ranks"};
constexpr std::array kGroups{"pipelines", "context groups", "tensor groups"};

Parts wanted_by(const Options& options) {
  return {options.pipeline_ranks, std::max<std::int64_t>(options.context_ranks, 1),
          std::max<std::int64_t>(options.tensor_ranks, 1)};
}

/// Returns the places of the numbers that are not 1 in `wanted`, or the first place.
std::vector<std::size_t> named_in(const Parts& wanted) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < kKeys.size(); ++i)
    if (wanted.all()[i] > 1) places.push_back(i);
  return places.empty() ? std::vector<std::size_t>{0} : places;
}

/// "parallel.pipeline_ranks is 2 and parallel.tensor_ranks is 4"
std::string keys_of(const Parts& wanted) {
  std::vector<std::string> texts;
  for (const std::size_t i : named_in(wanted)) texts.push_back(fmt::format("{} is {}", kKeys[i], wanted.all()[i]));
  return fmt::format("{}", fmt::join(texts, " and "));
}

/// Returns the numbers of `parts` at these places, as a text.
std::string joined(const Parts& parts, const std::vector<std::size_t>& places, std::string_view between) {
  std::vector<std::int64_t> numbers(places.size());
  std::ranges::transform(places, numbers.begin(), [&](std::size_t place) { return parts.all()[place]; });
  return fmt::format("{}", fmt::join(numbers, between));
}

/// "pipelines of 2 times 4 ranks"
std::string groups_of(const Parts& parts) {
  const auto named = named_in(parts);
  return fmt::format("{} of {}{}", kGroups[named.front()], joined(parts, named, " times "),
                     named.size() > 1 ? " ranks" : "");
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
  if (options.recompute == Recompute::blocks && options.tensor_shards % parts.tensor != 0)
    return fmt::format(
        "{} tensor ranks do not divide the {} tensor shards, as parallel.recompute = \"blocks\" needs it", parts.tensor,
        options.tensor_shards);
  if (ranks / parts.ranks() > options.microbatches)
    return fmt::format("{} ranks are {} {}, but there are only {} microbatches (parallel.microbatches)", ranks,
                       ranks / parts.ranks(), groups_of(parts), options.microbatches);
  return {};
}

/// Divisors of `number`, ascending; 1 alone, unless more than that is wanted.
std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t wanted) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= (wanted > 1 ? number : 1); ++d)
    if (number % d == 0) all.push_back(d);
  return all;
}

/// Returns the possible parts whose number of ranks is nearest to the wanted one, and of two such numbers the larger
/// one; then those that are nearest in themselves.
std::optional<Parts> nearest(const Options& options, int most_stages, int ranks) {
  const Parts wanted = wanted_by(options);
  const auto distance = [&](const Parts& parts) {
    return std::tuple(std::abs(parts.ranks() - wanted.ranks()), -parts.ranks(),
                      std::abs(parts.pipeline - wanted.pipeline), -parts.pipeline,
                      std::abs(parts.context - wanted.context), -parts.context);
  };
  std::optional<Parts> best;
  const auto consider = [&](const Parts& parts) {
    if (obstacle_of(options, most_stages, ranks, parts).empty() && (!best || distance(parts) < distance(*best)))
      best = parts;
  };
  for (const std::int64_t pipeline : divisors(ranks, wanted.pipeline))
    for (const std::int64_t context : divisors(ranks / pipeline, wanted.context))
      for (const std::int64_t tensor : divisors(ranks / pipeline / context, wanted.tensor))
        consider({pipeline, context, tensor});
  return best;
}

Degrees degrees_with(int ranks, const Parts& parts) {
  return {.data = ranks / static_cast<int>(parts.ranks()),
          .pipeline = static_cast<int>(parts.pipeline),
          .tensor = static_cast<int>(parts.tensor),
          .context = static_cast<int>(parts.context)};
}

std::string choice_of(const Options& options, const Parts& other) {
  const Parts wanted = wanted_by(options);
  const auto named = named_in(wanted);
  const bool keeps_stages = options.stage_layers.empty() || other.pipeline == wanted.pipeline;
  const char* const also = keeps_stages ? "" : ", with parallel.stage_layers = []";
  if (named.size() == 1) return fmt::format("number is {}{}", other.ranks(), also);
  return fmt::format("numbers are {}{}", joined(other, named, " and "), also);
}

/// Returns the parts that the options ask for, or the most of them that the model and the options permit on any number
/// of ranks.
Parts possible_of(const Options& options, int most_stages) {
  Parts parts = wanted_by(options);
  constexpr std::int64_t kSeveral = 2;  // ranks of a pipeline
  const std::int64_t most = most_stages / stages_per_rank(options, kSeveral);
  parts.pipeline = std::min(parts.pipeline, std::max<std::int64_t>(1, most));
  parts.context = std::clamp<std::int64_t>(options.context_chunks, 1, parts.context);
  parts.tensor = std::clamp<std::int64_t>(options.tensor_shards, 1, parts.tensor);
  while (options.recompute == Recompute::blocks && options.tensor_shards % parts.tensor != 0) --parts.tensor;
  return parts;
}

/// The number of ranks that is possible and nearly as large as this one: "start 6 ranks with parallel.pipeline_ranks =
/// 3".
std::string other_ranks(const Options& options, int most_stages, int ranks) {
  const Parts wanted = wanted_by(options), parts = possible_of(options, most_stages);
  const std::int64_t most = std::max<std::int64_t>(1, options.microbatches);
  const auto replicas = std::clamp<std::int64_t>(ranks / parts.ranks(), 1, most);
  const auto count = replicas * parts.ranks();
  auto text = fmt::format("start {} rank{}", count, count == 1 ? "" : "s");
  for (std::size_t i = 0; i < kKeys.size(); ++i)
    if (parts.all()[i] != wanted.all()[i])
      text += fmt::format("{} {} = {}", text.find(" with ") != std::string::npos ? " and" : " with", kKeys[i],
                          parts.all()[i]);
  return text;
}
}  // namespace

std::string product_name(const Degrees& degrees, OneOf<Strategy> strategy, bool recomputes) {
  const auto context = degrees.context > 1 ? fmt::format("x{}", degrees.context) : "";
  return fmt::format("{}x{}x{}{} {}{}", degrees.data, degrees.pipeline, degrees.tensor, context, strategy,
                     recomputes ? ", blocks" : "");
}

Mesh::Mesh(comm::Communicator& world, const Degrees& degrees) : world_(world), degrees_(degrees) {
  if (has_groups()) {
    share_ = share_of_groups(degrees.groups, world.size(), world.rank());
    group_ = world.split(share_.first_rank, world.rank().value);
  }
  if (!has_parts()) return;
  const int rank = world.rank().value, tensor = rank % degrees.tensor, parts = degrees.parts();
  const int stage = degrees.context * degrees.tensor;  // ranks of a stage
  data_ = world.split(rank % parts, rank);
  if (has_context()) context_ = world.split(rank / stage * degrees.tensor + tensor, rank);
  if (has_pipeline()) pipeline_ = world.split(rank / parts * stage + rank % stage, rank);
  if (has_tensor()) tensor_ = world.split(rank / degrees.tensor, rank);
  if (has_pipeline() + has_context() + has_tensor() > 1) replica_ = world.split(rank / parts, rank);
}

Degrees degrees_of(const Options& options, int ranks, int most_stages) {
  check(options);
  const Parts wanted = wanted_by(options);
  const std::string obstacle = obstacle_of(options, most_stages, ranks, wanted);
  if (obstacle.empty()) return degrees_with(ranks, wanted);
  const auto other = nearest(options, most_stages, ranks);
  throw ConfigError(
      other ? fmt::format("{}, but {}; the nearest possible {}", keys_of(wanted), obstacle, choice_of(options, *other))
            : fmt::format("{}; {}", obstacle, other_ranks(options, most_stages, ranks)));
}

Degrees nearest_degrees(const Options& options, int ranks, int most_stages, std::string& reason) {
  Options any = options;
  any.recompute = Recompute::none;  // where ranks cannot repeat sums over shards, they keep activations
  reason = obstacle_of(any, most_stages, ranks, wanted_by(options));
  const auto parts = nearest(any, most_stages, ranks);
  return parts ? degrees_with(ranks, *parts) : degrees_of(options, ranks, most_stages);
}

bool gives_gradients_back(const Options& options, const Degrees& degrees) {
  return row_of(options.strategy).shards_gradients && options.microbatches <= degrees.data && degrees.pipeline == 1 &&
         !options.compression.is_on();
}

bool share_parameters(const Options& options, const Degrees& degrees, bool on_one_node) {
  return row_of(options.strategy).shards_parameters && on_one_node && degrees.parts() == 1;
}

bool takes_turns(const Options& options, const Degrees& degrees, bool on_one_node) {
  const bool gathers = row_of(options.strategy).shards_parameters && !share_parameters(options, degrees, on_one_node);
  return gathers || gives_gradients_back(options, degrees);
}

bool codes_changes(const Options& options) {
  const auto& row = row_of(options.strategy);
  return options.compression.is_on() && options.compression.of_parameters && row.shards_moments &&
         !row.shards_parameters;
}

}  // namespace distdl::parallel
