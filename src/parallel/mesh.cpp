// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <distdl/parallel/mesh.hpp>

namespace distdl::parallel {

Degrees degrees_of(const Options& options, int world_size) {
  Degrees degrees;
  for (int tensor = 1; tensor <= std::min<std::int64_t>(options.tensor_ranks, world_size); ++tensor)
    if (world_size % tensor == 0) degrees.tensor = tensor;
  degrees.data = world_size / degrees.tensor;
  return degrees;
}

Mesh::Mesh(comm::Communicator& world, const Degrees& degrees) : world_(world), degrees_(degrees) {
  if (!has_pipeline() && !has_tensor()) return;
  const int rank = world.rank().value, tensor = rank % degrees.tensor, replica = degrees.pipeline * degrees.tensor;
  data_ = world.split(rank % replica, rank);
  if (has_pipeline()) pipeline_ = world.split(rank / replica * degrees.tensor + tensor, rank);
  if (has_tensor()) tensor_ = world.split(rank / degrees.tensor, rank);
}

}  // namespace distdl::parallel
