// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <iterator>
#include <limits>

#include <distdl/train/memory.hpp>
#include <distdl/train/ranks/fitting_model.hpp>

namespace distdl::train {
namespace {
/// Bytes of this node's memory; unlimited for a device, whose memory is unknown.
std::uint64_t memory_for(const kernels::Backend& backend) {
  return backend.memory_is_host() ? memory_of_node() : std::numeric_limits<std::uint64_t>::max();
}
}  // namespace

OwnedModel hold_what_fits(const Recipe& recipe, const Setting& setting, const parallel::Mesh& mesh,
                          kernels::Backend& backend, const data::Source& samples,
                          const std::optional<parallel::Cluster>& cluster) {
  OwnedModel held = hold(model_of(recipe, samples), recipe.parallel, mesh, backend, setting.stage_costs);
  const auto& world = mesh.world();
  const auto here = world.ranks_on_host_of(world.rank());
  const RanksOfMachine ranks{static_cast<int>(here.size()), mesh.degrees(), here.front() == world.rank(),
                             static_cast<int>(setting.devices_per_rank)};
  const std::uint64_t memory = memory_for(backend);
  parallel::Options parallel = recipe.parallel;
  if (cluster) {  // as many as there are
    parallel.servers.tasks = std::ssize(cluster->servers);
    parallel.servers.workers = std::ssize(cluster->workers);
  }
  check_memory(held.model, held.tensors, parallel, recipe.optim, ranks, memory,
               backend.memory_is_host() ? limits_of_process() : ProcessLimits{});
  held.activations = activations_for(held.model, parallel, recipe.optim, backend.activation_type(), ranks, memory);
  return held;
}

}  // namespace distdl::train
