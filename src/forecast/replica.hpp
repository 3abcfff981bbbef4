// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/forecast/product_forecast.hpp>
#include <distdl/model/parts.hpp>

namespace distdl::forecast {

/// The ranks that own the model together: those of a pipeline, each of which stands for its tensor group and context
/// group. Of these ranks, one with the most shards and chunks counts.
struct Replica {
  struct Stage {
    std::vector<model::ModelTensors> parts;  ///< in one arena; several, if stages are interleaved
    std::vector<std::size_t> slots;          ///< number of networks for each part
    double room_bytes = 0;                   ///< room for messages to other ranks, in the memory of the node
    const tensor::ArenaLayout& layout() const { return parts.front().layout; }
  };
  model::Description model;   ///< all layers, with the shards and chunks that a rank has
  model::Wiring wiring;       ///< for one sample
  StageChoice choice;         ///< stages of all layers
  std::vector<Stage> stages;  ///< by pipeline coordinate
  /// Work of a rank; with a pipeline, all its passes of a step count as one backward pass.
  RankWork work;
  double bubble = 0;         ///< idle part of that pass, mean over the ranks
  double sent_bytes = 0;     ///< bytes from a node to others in a step: transfers, sums of shards, exchanges
  double scratch_bytes = 0;  ///< scratch memory of these sums, with their areas in shared memory

  bool is_pipeline() const { return stages.size() > 1; }
  /// The stage with the most parameters.
  const Stage& largest() const;
};

/// Returns the replica of a product whose replicas have at most so many microbatches in a step. The pipeline's own
/// schedule is simulated; beyond 2^17 operations, the time of a further microbatch is that of a shorter step.
Replica replica_of(const Basis& basis, const train::Recipe& recipe, const parallel::Degrees& degrees, int microbatches);

}  // namespace distdl::forecast
