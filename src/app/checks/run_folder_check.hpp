// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/config/job.hpp>

namespace distdl::app {

/// Makes nothing: what there is of the path must be a folder that can be written to. Throws StorageError.
void check_run_folder(const std::filesystem::path& folder);

/// Makes it, with its logs, before any rank starts: an unwritable folder is then one error and not one of each rank.
/// Throws StorageError.
void make_run_folder(const std::filesystem::path& folder);

/// How many ranks a job of Slurm runs.
struct RankCounts {
  int at_start = 1;
  int at_most = 1;  ///< once all nodes that may join the run have joined it
};
/// Of a job with so many tasks on so many nodes; 0 nodes: their number is not known, or it is no job of Slurm. Throws
/// ConfigError if none of its nodes would run ranks, or if they were too many.
RankCounts count_ranks(const config::Job& job, int tasks, int nodes);

/// Whether so many ranks can share the work of a step; 0: their number is not known. Throws ConfigError.
void check_plan(const config::Job& job, const RankCounts& ranks);

}  // namespace distdl::app
