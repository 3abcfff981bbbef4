// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <distdl/slurm/records.hpp>

// Readers of what Slurm's commands print, for any text. libslurm prints the same (libslurm_plugin.cpp).
namespace distdl::slurm {

/// Reads "scontrol show job", on one line (-o) or several. `id`: which of several records, as of the tasks of an array:
/// that with this number, or "12_3", or else the first. Nothing if there is no record with a JobState.
std::optional<JobRecord> job_in(const std::string& text, const std::string& id);

/// Reads "scontrol show partition". Nothing if there is no record of this name.
std::optional<Partition> partition_in(const std::string& text, const std::string& name);

/// Reads "scontrol show config". Missing values have Slurm's default.
Settings settings_in(const std::string& text);

/// Reads "squeue --json", which lists all jobs of the cluster (22.05 does, whichever it is asked for). Returns the
/// "node=2" in the "tres_req_str" of `job`, the resources that it asked for; nothing if there is none.
std::optional<int> fewest_nodes_in(const std::string& text, const std::string& job);

/// Reads a local time "2026-03-01T12:00:00", or seconds since 1970, "@1772366400" or "1772366400". Nothing for anything
/// else, as "Unknown", and for a time in which no job begins or ends, see time_from().
std::optional<Time> time_in(const std::string& text);

/// Returns the time `seconds` after 1970; nothing unless a job may end then: after 1970, and within 100 years from now.
std::optional<Time> time_from(std::int64_t seconds);

/// Returns the words of a list of names of squeue.
std::vector<std::string> words_in(const std::string& text);

}  // namespace distdl::slurm
