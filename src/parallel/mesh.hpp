// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/comm/communicator.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::parallel {

/// The numbers of ranks along the axes of a product: data replicas, each of which is a pipeline of so many stages,
/// whose tensor shards lie on so many ranks.
struct Degrees {
  int data = 1, pipeline = 1, tensor = 1;
  int ranks() const { return data * pipeline * tensor; }
  bool operator==(const Degrees&) const = default;
};

/// The product that so many ranks form: as many for the tensor shards as the options permit and as divide the number of
/// ranks.
Degrees degrees_of(const Options& options, int world_size);

/// The ranks of a run as a product: rank = (data coordinate * degrees.pipeline + pipeline coordinate) * degrees.tensor
/// + tensor coordinate. The ranks of a tensor group, which talk most, are neighbours, then those of a pipeline. So they
/// stay within a node where they fit, and what goes farther are the sums over the data group, once per step.
class Mesh {
 public:
  /// Collective. `world` has degrees.ranks() ranks and must outlive the mesh.
  Mesh(comm::Communicator& world, const Degrees& degrees);
  const Degrees& degrees() const { return degrees_; }
  /// The ranks that hold the same part of the model as this one, by their data coordinate.
  comm::Communicator& data() const { return data_ ? *data_ : world_; }
  /// The ranks of this one's pipeline, by their pipeline coordinate. Only if there are several.
  comm::Communicator& pipeline() const { return *pipeline_; }
  bool has_pipeline() const { return degrees_.pipeline > 1; }
  /// The ranks that have the tensor shards of the same layers, by their tensor coordinate. Only if there are several.
  comm::Communicator& tensor() const { return *tensor_; }
  bool has_tensor() const { return degrees_.tensor > 1; }

 private:
  comm::Communicator& world_;
  Degrees degrees_;
  std::unique_ptr<comm::Communicator> data_, pipeline_, tensor_;  ///< none: one coordinate only
};

}  // namespace distdl::parallel
