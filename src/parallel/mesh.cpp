// SPDX-License-Identifier: Apache-2.0
#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {

Mesh::Mesh(comm::Communicator& world, const Degrees& degrees) : world_(world), degrees_(degrees) {
  if (!has_pipeline()) return;
  const int rank = world.rank().value, place = rank % degrees.pipeline;
  data_ = world.split(place, rank);
  pipeline_ = world.split(rank / degrees.pipeline, rank);
}

}  // namespace distdl::parallel
