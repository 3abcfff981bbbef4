// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/slurm/allocation.hpp>

// Parsers of Slurm's variables and of its commands' output, for any text. Nothing here calls Slurm.
namespace distdl::slurm {

/// The value of a variable, if it has one.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;

/// As current_allocation(), which takes the variables from the environment.
std::optional<Allocation> allocation_from(const Variable& variable);

/// As switches_of_node(), of SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN: "core.leaf3.n17" and
/// "switch.switch.node"; without a topology "n17" and "node".
std::string switches_in(const std::string& address, const std::string& pattern);

/// Of `seconds` since 1970; nothing unless a job may end then: after 1970, and within 100 years from now.
std::optional<std::chrono::system_clock::time_point> time_from(std::int64_t seconds);

/// Of "scontrol show job -o": when the job ends; nothing if it has no limit, or that is not told.
std::optional<std::chrono::system_clock::time_point> end_in(const std::string& text);
/// Of the same; nothing if it tells no JobState.
std::optional<JobRecord> record_in(const std::string& text);

/// Of "squeue --json", which lists all jobs of the cluster (22.05 does, whichever it is asked for): the "node=2" in the
/// "tres_req_str" of `job`, which tells what it asked for; nothing if there is none.
std::optional<int> fewest_nodes_in(const std::string& text, const std::string& job);

/// Of "scontrol show hostnames", or of a list of names of squeue.
std::vector<std::string> words_in(const std::string& text);

}  // namespace distdl::slurm
