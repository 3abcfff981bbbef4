// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <distdl/comm/communicator.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::train {

/// Into which replicas, stages and tensor groups the ranks that there are divide: as the recipe asks, or as near to it
/// as possible, for a run goes on with what is left; then rank 0 logs why. Rank 0 warns of a tensor group on several
/// nodes. Each rank finds the same. Throws ConfigError if there is no choice. What a start cannot do, distdl refuses
/// before it starts ranks.
parallel::Degrees degrees_for(const Recipe& recipe, const comm::Communicator& communicator);

/// The roles of the ranks; none without a parameter server. Collective. `timeout`: longest wait for the slowest rank.
std::optional<parallel::Cluster> cluster_for(const Recipe& recipe, comm::Communicator& communicator,
                                             Clock::duration timeout);

}  // namespace distdl::train
