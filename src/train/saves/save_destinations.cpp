// SPDX-License-Identifier: Apache-2.0
#include <distdl/checkpoint/orphaned_snapshots.hpp>
#include <distdl/train/saves/save_destinations.hpp>

namespace distdl::train {

std::optional<checkpoint::Destination> destination_of(const checkpoint::Options& options, Step step, bool file_system) {
  const bool in_memory = options.memory_every > 0 && step.value % options.memory_every == 0;
  const checkpoint::Destination destination{file_system, checkpoint::due_levels(options, step)};
  if (!file_system && destination.levels.is_empty() && !in_memory) return std::nullopt;
  return destination;
}

std::string run_name(const checkpoint::Store& store) {
  return store.run_name();
}

std::optional<Step> step_left_in_memory(const checkpoint::Store& store, Rank rank) {
  std::optional<checkpoint::SnapshotLabel> newest;
  for (const auto& one : checkpoint::orphaned_snapshots(store.named_root()))
    if (one.label.rank == rank.value && (!newest || moment_of(one.label) > moment_of(*newest))) newest = one.label;
  return newest ? std::optional(newest->step) : std::nullopt;
}

std::optional<checkpoint::Levels::Setup> levels_setup(const checkpoint::Store& store, checkpoint::Place place,
                                                      bool keeps_ranges) {
  const checkpoint::Options& options = store.options();
  if (!has_levels(options) && !keeps_ranges) return std::nullopt;
  const std::string run = run_name(store);
  return checkpoint::Levels::Setup{.run = run, .memory = run, .place = std::move(place), .options = options};
}

}  // namespace distdl::train
