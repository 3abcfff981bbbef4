// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/saver.hpp>

namespace distdl::train {

/// Where a snapshot of `step` goes, by the intervals of the levels; nothing if nobody wants one. `file_system`: a
/// checkpoint is due.
std::optional<checkpoint::Destination> destination_of(const checkpoint::Options& options, Step step, bool file_system);

/// Names the run's snapshots alike in all its processes and restarts, unlike those of any other run, and unlike those
/// of a run whose folder was removed or copied. Of a store that is taken.
std::string run_name(const checkpoint::Store& store);

/// The newest step of which this node's memory still has a rank's snapshot of an earlier start; nothing if there is
/// none.
std::optional<Step> step_left_in_memory(const checkpoint::Store& store, Rank rank);

/// Nothing if snapshots are kept on the file system only.
std::optional<checkpoint::Levels::Setup> levels_setup(const checkpoint::Store& store, checkpoint::Place place);

}  // namespace distdl::train
