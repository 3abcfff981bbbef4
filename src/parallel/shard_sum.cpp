// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/shard_sum.hpp>

namespace distdl::parallel {

comm::Leaves shards_of_ranks(int shards, int ranks) {
  comm::Leaves leaves{shards, {}};
  for (int r = 0; r < ranks; ++r) {
    const int first = shards * r / ranks;
    leaves.ranges.push_back({first, shards * (r + 1) / ranks - first});
  }
  return leaves;
}

namespace {
/// Returns the number of values of each rank.
std::vector<std::size_t> counts_of_ranks(const comm::Leaves& leaves, std::span<const std::size_t> counts) {
  std::vector<std::size_t> all;
  for (const auto& [first, count] : leaves.ranges) {
    const auto own = counts.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    all.push_back(std::accumulate(own.begin(), own.end(), std::size_t{0}));
  }
  return all;
}
}  // namespace

void gather_shards(comm::Communicator& group, int shards, tensor::DataType type, void* all, std::size_t count) {
  const auto range = shards_of_ranks(shards, group.size()).ranges[static_cast<std::size_t>(group.rank().value)];
  const auto* const own =
      static_cast<const std::byte*>(all) + static_cast<std::size_t>(range.first) * count * tensor::size_of(type);
  gather_shards(group, type, own, all, std::vector<std::size_t>(static_cast<std::size_t>(shards), count));
}

void gather_shards(comm::Communicator& group, tensor::DataType type, const void* own, void* all,
                   std::span<const std::size_t> counts) {
  const auto of_ranks = counts_of_ranks(shards_of_ranks(static_cast<int>(counts.size()), group.size()), counts);
  const std::size_t count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  group.all_gather({own, of_ranks[static_cast<std::size_t>(group.rank().value)], type}, {all, count, type}, of_ranks)
      .wait();
}

ShardSum::ShardSum(kernels::Backend& backend, comm::Communicator& group, int shards)
    : backend_(backend), group_(group), leaves_(shards_of_ranks(shards, group.size())) {
  const auto range = leaves_.ranges[static_cast<std::size_t>(group.rank().value)];
  for (const comm::TreeNode& node : comm::cover(range, shards)) {
    own_.push_back(comm::leaves_of(node, shards));
    own_.back().first -= range.first;
  }
  partials_.resize(own_.size());
}

void ShardSum::operator()(const kernels::ActivationFormat& format, std::span<void* const> addends) {
  add_own(format, addends);
  group_.all_reduce(leaves_, partials_, {addends[0], format.elements(), format.type}).wait();
}

void ShardSum::to_slices(const kernels::ActivationFormat& format, std::span<void* const> addends, void* own,
                         std::span<const std::size_t> counts) {
  add_own(format, addends);
  const auto of_ranks = counts_of_ranks(leaves_, counts);
  const std::size_t count = of_ranks[static_cast<std::size_t>(group_.rank().value)];
  group_.reduce_scatter(leaves_, partials_, {own, count, format.type}, of_ranks).wait();
}

void ShardSum::add_own(const kernels::ActivationFormat& format, std::span<void* const> addends) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const auto [first, count] = own_[i];
    backend_.sum(format, addends.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
    partials_[i] = {addends[static_cast<std::size_t>(first)], format.elements(), format.type};
  }
}

}  // namespace distdl::parallel
