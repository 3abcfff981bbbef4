// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/comm/communicator.hpp>

namespace distdl::parallel {

/// The numbers of ranks along the axes of a product: data replicas, each of which is a pipeline of so many ranks.
struct Degrees {
  int data = 1, pipeline = 1;
  int ranks() const { return data * pipeline; }
  bool operator==(const Degrees&) const = default;
};

/// The ranks of a run as a product. The pipeline's ranks are neighbours: rank = data coordinate * degrees.pipeline +
/// pipeline coordinate. So a pipeline stays within a node where it fits, and what goes farther are the sums over the
/// data group, once per step.
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

 private:
  comm::Communicator& world_;
  Degrees degrees_;
  std::unique_ptr<comm::Communicator> data_, pipeline_;  ///< none: one coordinate only
};

}  // namespace distdl::parallel
