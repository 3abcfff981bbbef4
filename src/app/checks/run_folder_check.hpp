// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>

#include <distdl/config/job.hpp>

namespace distdl::app {

/// Checks that what there is of the path is a folder that can be written to. Makes nothing. Throws StorageError.
void check_run_folder(const std::filesystem::path& folder);

/// Makes the folder, with its logs, before any rank starts: an unwritable folder is then one error and not one of each
/// rank. Throws StorageError.
void make_run_folder(const std::filesystem::path& folder);

/// How many ranks a job of Slurm runs.
struct RankCounts {
  int at_start = 1;      ///< 0: not known
  int at_most = 1;       ///< once all nodes that may join the run have joined it; 0: not known
  bool goes_on = false;  ///< the run has trained before: its ranks form the nearest groups that are possible
  int here = 0;          ///< all of them, if they share the memory of this machine; else 0
  int nodes = 0;         ///< number of nodes on which the ranks are at the start; 0: not known
};
/// Counts the ranks of a job with so many tasks on so many nodes; 0 nodes: their number is not known, or it is no job
/// of Slurm. Throws ConfigError if none of its nodes would run ranks, or if they were too many.
RankCounts count_ranks(const config::Job& job, int tasks, int nodes);

/// The stages of a model that is not known.
inline constexpr int kAnyStages = std::numeric_limits<int>::max();

/// Checks that so many ranks can share the work of a step. `most_stages`: largest number of stages of the model.
/// parallel::check_stages() checks the job's keys on the stages of each rank (parallel.interleave,
/// parallel.stage_layers). Throws ConfigError, which names a choice that is possible; if the model is not known, the
/// choice may have too many stages for it.
void check_plan(const config::Job& job, const RankCounts& ranks, int most_stages = kAnyStages);

}  // namespace distdl::app
