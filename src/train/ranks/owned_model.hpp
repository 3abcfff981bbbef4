// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/parts.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/piece_sums.hpp>
#include <distdl/parallel/shard_sum.hpp>

namespace distdl::train {

/// The part of a model that a rank holds. The model is divided into tensor shards.
struct OwnedModel {
  model::ModelTensors whole;               ///< tensors of all layers and shards
  model::Description model;                ///< all layers, with the shards that this rank has
  std::vector<model::LayerRange> stages;   ///< stages of a pipeline, on its ranks in turn; one stage without a pipeline
  std::vector<model::ModelTensors> parts;  ///< tensors of each stage of this rank, in one arena, with its shards
  model::ModelTensors tensors;             ///< tensors of all `parts`
  std::unique_ptr<parallel::ShardSum> shard_sum, chunk_sum;  ///< none: this rank has all shards, or all chunks
  model::Network::Exchange shard_exchange;
  model::Network::Gather gather_chunks;
  /// True if this rank reports for undivided tensors, which all ranks of its tensor group and of its context group
  /// have.
  bool tells_whole_tensors = true;
  /// True if this rank reports for its parts of divided tensors, which all ranks of its context group have.
  bool tells_parts = true;
  model::Network::Activations activations = model::Network::Activations::kept;  ///< for each network of a step

  /// The elements of gradients that belong to each of `parts`, of `count` with the tail.
  parallel::GradientSum::Pieces pieces(std::size_t count) const;
  /// The elements of the whole model for which this rank reports to the others: each element of a replica is reported
  /// by one rank.
  std::vector<parallel::OwnedElements> reported_elements() const;
  /// Connects a network to the ranks that have the other shards or chunks. This object must outlive the network.
  void connect(model::Network& network) const;
};

/// Not collective. `divided`: the whole model, in as many shards as the options say. `mesh` must outlive the result.
/// `stage_costs`: see parallel::stages_of().
OwnedModel hold(const model::Description& divided, const parallel::Options& options, const parallel::Mesh& mesh,
                kernels::Backend& backend, std::span<const double> stage_costs);

}  // namespace distdl::train
