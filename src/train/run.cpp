// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/ranges.h>

#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/train/loop/trainer.hpp>
#include <distdl/train/ranks/agreement.hpp>
#include <distdl/train/ranks/degrees.hpp>
#include <distdl/train/ranks/same_ranks.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/staging/staged_sets.hpp>

namespace distdl::train {
namespace {
Outcome run_with(const Recipe& recipe, const Setting& setting, Host& host, comm::Communicator& communicator,
                 groups::CommunicatorGroup& group, records::Observer& observer) {
  parallel::Degrees degrees;
  agree(communicator, group.timeout(), [&] { degrees = degrees_for(recipe, communicator); });
  const parallel::Mesh mesh(communicator, degrees);
  const auto cluster = cluster_for(recipe, communicator, group.timeout());
  if (cluster && communicator.rank() == Rank(0))
    observer.on(records::ProductChosen{static_cast<int>(cluster->hosts.size()), "parameter_server",
                                       parallel::text_of(*cluster), cluster->servers, cluster->workers,
                                       cluster->hosts});
  std::optional<Trainer> trainer;
  agree(communicator, group.timeout(),
        [&] { trainer.emplace(recipe, setting, host, communicator, mesh, group, cluster, observer); });
  check_same_samples(communicator, trainer->digest());
  auto backends = communicator.all_gather_strings(trainer->backend());
  const bool is_mixed = std::ranges::adjacent_find(backends, std::not_equal_to<>()) != backends.end();
  if (cluster && cluster->is_by_device)  // servers update on the processor wherever they are
    for (const Rank rank : cluster->servers)
      backends[static_cast<std::size_t>(rank.value)] = backends[static_cast<std::size_t>(cluster->workers[0].value)];
  check_same_layouts(backends, mesh);
  if (communicator.rank().value == 0) warn_of_different_backends(backends, recipe.train.audit_every > 0);
  if (is_mixed) trainer->allow_different_bits();  // also with servers of another kind: the next start may have none
  if (recipe.train.audit_every > 0) trainer->name_nodes(communicator.all_gather_strings(setting.node));
  trainer->know_performance();
  return (*trainer)();
}
}  // namespace

Outcome run(const Recipe& recipe, const Setting& setting, Host& host, comm::Communicator& communicator,
            records::Observer& observer) {
  groups::CommunicatorGroup group(communicator, recipe.checkpoint.timeout_seconds);
  agree(communicator, group.timeout(), [&] {
    check(recipe);
    check_devices(recipe, setting.devices_per_rank);
    require<InternalError>(recipe.parallel.strategy != parallel::Strategy::automatic, "{}",
                           "parallel.strategy = \"auto\" was not decided");
  });
  const StagedSets sets(recipe.data, communicator, group.timeout(), setting.node);
  Recipe staged = recipe;
  staged.data = sets.options();
  try {
    return run_with(staged, setting, host, communicator, group, observer);
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::corrupt) throw;
    const auto removed = sets.remove_damaged();
    if (removed.empty()) throw;
    throw CommError(fmt::format("the copy \"{}\" of a data set on this node is damaged and was removed, and the ranks "
                                "start again with a new one: {}",
                                fmt::join(removed, "\", \""), error.what()),
                    ExitCode::peer_lost);
  }
}

}  // namespace distdl::train
