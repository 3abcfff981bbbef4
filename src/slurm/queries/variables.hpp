// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/records.hpp>

// Readers of Slurm's variables, for any text. Nothing here asks the environment.
namespace distdl::slurm {

/// The value of a variable, if it has one.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;

/// Returns scontrol's name of the job: "17", or "17_3" of the one task of an array whose id is that of the array;
/// nothing outside of a job.
std::optional<std::string> job_called_by(const Variable& variable);

/// As allocation_by_variables(), which takes them from the environment.
std::optional<Allocation> allocation_from(const Variable& variable);

/// Returns the allocation by the record of the job. SLURM_RESTART_COUNT counts only if it is less: a process of an
/// earlier start of the job is left over then. A larger one is of another job. SLURM_JOB_NODELIST counts if the record
/// has some of its nodes only.
Allocation allocation_of(const JobRecord& record, const Variable& variable);

/// Returns the switches as switches_of_node(), by SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN: "core.leaf3.n17"
/// and "switch.switch.node"; without a topology "n17" and "node".
std::string switches_in(const std::string& address, const std::string& pattern);

}  // namespace distdl::slurm
