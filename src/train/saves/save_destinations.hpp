// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/saver.hpp>

namespace distdl::train {

/// The destination of a snapshot of `step`, according to the intervals of the levels. Returns nothing if none is due.
/// `file_system`: whether a checkpoint is due.
std::optional<checkpoint::Destination> destination_of(const checkpoint::Options& options, Step step, bool file_system);

/// The run name in snapshots, equal in all processes and restarts of the run. It differs for any other run, and after
/// the folder was removed or copied. `store` must have been taken.
std::string run_name(const checkpoint::Store& store);

/// The newest step of which this node's memory still has a rank's snapshot from an earlier start. Returns nothing if
/// there is none.
std::optional<Step> step_left_in_memory(const checkpoint::Store& store, Rank rank);

/// Returns nothing if snapshots are kept only on the file system. `keeps_ranges`: see parallel::keeps_ranges().
std::optional<checkpoint::Levels::Setup> levels_setup(const checkpoint::Store& store, checkpoint::Place place,
                                                      bool keeps_ranges = false);

}  // namespace distdl::train
