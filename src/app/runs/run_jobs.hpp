// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <distdl/slurm/records.hpp>

namespace distdl::app {

/// Throws StorageError unless Slurm's own record says that the job is one of this run, and may therefore be cancelled,
/// signalled or requeued with it: the journal of a run folder may have been written by others. Throws SchedulerError if
/// Slurm cannot be asked.
void require_job_of_run(const std::filesystem::path& run_folder, const std::string& job);

/// Why a job is not one of this run; empty: it is. `script`: its batch script; nothing: it has none, or Slurm does not
/// show it.
std::string doubt_about_job(const std::filesystem::path& run_folder, const slurm::JobRecord& record,
                            const std::optional<std::string>& script);

}  // namespace distdl::app
