// SPDX-License-Identifier: Apache-2.0
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

void gather_shards(comm::Communicator& group, int shards, tensor::DataType type, void* all, std::size_t count) {
  const auto leaves = shards_of_ranks(shards, group.size());
  std::vector<std::size_t> counts;
  for (const auto& range : leaves.ranges) counts.push_back(static_cast<std::size_t>(range.count) * count);
  const auto self = static_cast<std::size_t>(group.rank().value);
  const std::size_t first = static_cast<std::size_t>(leaves.ranges[self].first) * count * tensor::size_of(type);
  group
      .all_gather({static_cast<const std::byte*>(all) + first, counts[self], type},
                  {all, static_cast<std::size_t>(shards) * count, type}, counts)
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
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const auto [first, count] = own_[i];
    backend_.sum(format, addends.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
    partials_[i] = {addends[static_cast<std::size_t>(first)], format.elements(), format.type};
  }
  group_.all_reduce(leaves_, partials_, {addends[0], format.elements(), format.type}).wait();
}

}  // namespace distdl::parallel
