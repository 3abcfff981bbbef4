// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/ids.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/parallel/plan.hpp>

// Local SGD: the microbatches of a step form groups, which train apart from each other for a while. Which microbatches
// a group has is a matter of the recipe; which ranks have it does not change a bit.
namespace distdl::parallel {

/// Groups that a rank has: some whole ones, if there are at most as many ranks as groups; else one, together with other
/// ranks.
struct GroupShare {
  comm::LeafRange groups;
  int first_rank = 0;  ///< first of the ranks that have its group; with several groups, itself
};
GroupShare share_of_groups(int groups, int ranks, Rank rank);

/// Returns the groups that each rank adds to a sum over all groups. The first of the ranks that share a group adds it.
comm::Leaves leaves_of_groups(int groups, int ranks);

/// The microbatches of a group, counted from its first one, on the ranks that have it.
MicrobatchPlan plan_of_group(const Options& options, int ranks);

/// Checks the keys of local SGD. Throws ConfigError.
void check_groups(const Options& options);

}  // namespace distdl::parallel
