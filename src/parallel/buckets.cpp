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

std::size_t best_bucket(const comm::Communicator& communicator, const comm::Leaves& leaves, std::size_t count) {
  constexpr std::size_t kSmallest = std::size_t{1} << 16;
  constexpr double kLoss = 1.05;  ///< seconds of all buckets, of those of one sum
  const auto size = static_cast<std::size_t>(communicator.size());
  if (communicator.ranks_on_host_of(communicator.rank()).size() == size) return count;
  const auto seconds = [&](std::size_t floats) {
    return communicator.predicted_seconds(leaves, floats, comm::DataType::float32);
  };
  const double whole = seconds(count);
  for (std::size_t floats = kSmallest; floats < count; floats *= 2)
    if (seconds(floats) * static_cast<double>(count) <= kLoss * whole * static_cast<double>(floats)) return floats;
  return count;
}

}  // namespace distdl::parallel
