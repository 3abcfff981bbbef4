// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>

#include <distdl/agent/launch_record.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/config/job.hpp>

namespace distdl::app {

/// A run that nodes of another job may join.
struct JoinTarget {
  config::Job job;  ///< as the launch has it
  agent::OpenLaunch launch;

  /// Number of further nodes that would run ranks.
  std::size_t free_places() const;
};

/// The launch of the run that goes on; waits up to `patience` for one. From then on the current folder is that of the
/// launch, in which the paths of its job file are. Throws UsageError if there is no launch, ConfigError if this distdl
/// or the job file are others than those of the launch.
JoinTarget find_join_target(const std::filesystem::path& run_folder, Milliseconds patience);

/// For a job that wants to join: throws UsageError if the run does not go on.
void require_running(const std::filesystem::path& run_folder);
/// For a job that wants to join: throws UsageError if the run has all the nodes that it wants, or takes in no more
/// (run.regrow_seconds = 0).
void require_free_place(const std::filesystem::path& run_folder, const JoinTarget& target);

}  // namespace distdl::app
