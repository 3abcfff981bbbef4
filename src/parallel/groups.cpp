// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/base/errors.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/parallel/groups.hpp>

namespace distdl::parallel {
namespace {
/// floor(a * b / c), without overflow.
int share(int a, int b, int c) {
  return static_cast<int>(static_cast<std::int64_t>(a) * b / c);
}
}  // namespace

GroupShare share_of_groups(int groups, int ranks, Rank rank) {
  if (ranks <= groups) {
    const int first = share(groups, rank.value, ranks);
    return {{first, share(groups, rank.value + 1, ranks) - first}, rank.value};
  }
  // The last group whose first rank, share(ranks, group, groups), is not after this one.
  const auto group = static_cast<int>((static_cast<std::int64_t>(rank.value + 1) * groups - 1) / ranks);
  return {{group, 1}, share(ranks, group, groups)};
}

comm::Leaves leaves_of_groups(int groups, int ranks) {
  comm::Leaves leaves{groups, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    const auto own = share_of_groups(groups, ranks, Rank(rank));
    leaves.ranges.push_back(own.first_rank == rank ? own.groups : comm::LeafRange{own.groups.first + 1, 0});
  }
  return leaves;
}

MicrobatchPlan plan_of_group(const Options& options, int ranks) {
  Options own = options;
  own.microbatches /= options.local_sgd.groups;
  return make_plan(own, ranks);
}

void check_groups(const Options& options) {
  if (!row_of(options.strategy).has_groups) return;
  require(options.local_sgd.groups >= 1, "parallel.groups is {}, but must be at least 1", options.local_sgd.groups);
  require(options.microbatches < 1 || options.microbatches % options.local_sgd.groups == 0,
          "parallel.groups is {}, but the {} microbatches of a step (parallel.microbatches) do not divide into so many "
          "equal groups; the nearest number is {}",
          options.local_sgd.groups, options.microbatches,
          model::nearest_divisor(options.microbatches, options.local_sgd.groups));
  require(options.local_sgd.steps >= 1, "parallel.local_steps is {}, but must be at least 1", options.local_sgd.steps);
  constexpr double kLargestRate = 2;  // beyond, an outer step without momentum diverges
  require(options.local_sgd.outer_learning_rate > 0 && options.local_sgd.outer_learning_rate <= kLargestRate,
          "parallel.outer_learning_rate is {}, but must be above 0 and at most {}",
          options.local_sgd.outer_learning_rate, kLargestRate);
  require(options.local_sgd.outer_momentum >= 0 && options.local_sgd.outer_momentum < 1,
          "parallel.outer_momentum is {}, but must be at least 0 and below 1", options.local_sgd.outer_momentum);
}

}  // namespace distdl::parallel
