// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <distdl/config/job.hpp>
#include <distdl/launch/supervisor.hpp>

// The file into which Slurm writes what a job says on stderr, or any other that is read later.
namespace distdl::app {

/// In a Slurm job, show_line_times(): nobody saw the lines when they were written.
void show_times_in_job_log();

/// The file in the run folder for the log of this node. Makes its folder. Throws StorageError.
std::filesystem::path log_of_node(const std::string& run_dir);

/// Head of a log: version, job, start of the run, ranks, nodes, run folder. Empty if stderr is a terminal, whose reader
/// needs no head.
std::string head_of_log(const config::Job& job, const launch::LaunchSpec& spec);

}  // namespace distdl::app
