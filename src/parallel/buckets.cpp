// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/parallel/buckets.hpp>

namespace distdl::parallel {
namespace {
constexpr std::size_t kMostBuckets = 100;  ///< a communicator keeps the plans of 256 different operations
}  // namespace

std::vector<Bucket> buckets_of(std::span<const std::size_t> places, std::size_t count, std::size_t least) {
  if (least >= count || places.empty()) return {{0, count}};
  least = std::max(least, count / kMostBuckets);
  std::vector<Bucket> buckets{{places.front(), count}};
  for (const std::size_t place : places.subspan(1)) {
    const std::size_t end = buckets.back().first;
    if (end - place >= least || place == 0) buckets.push_back({place, end});
  }
  return buckets;
}

std::vector<std::size_t> begins_of_tensors(const tensor::ArenaLayout& layout) {
  std::vector<std::size_t> places{layout.size()};
  const auto& tensors = layout.tensors();
  for (std::size_t i = tensors.size(); i-- > 0;)
    if (i == 0 || !tensor::same_whole(tensors[i - 1], tensors[i])) places.push_back(tensors[i].offset);
  return places;
}

std::size_t best_bucket(std::size_t count, const std::function<double(std::size_t)>& seconds) {
  constexpr std::size_t kSmallest = std::size_t{1} << 16;
  const auto cost = [&](std::size_t floats) {
    return seconds(floats) * (static_cast<double>(count) / static_cast<double>(floats) + 1);
  };
  std::size_t best = count;
  for (std::size_t floats = kSmallest; floats < count; floats *= 2)
    if (cost(floats) < cost(best)) best = floats;
  return best;
}

std::size_t best_bucket(const comm::Communicator& communicator, const comm::Leaves& leaves, std::size_t count) {
  const auto size = static_cast<std::size_t>(communicator.size());
  if (communicator.ranks_on_host_of(communicator.rank()).size() == size) return count;
  return best_bucket(count, [&](std::size_t floats) {
    return communicator.predicted_seconds(leaves, floats, comm::DataType::float32);
  });
}

}  // namespace distdl::parallel
