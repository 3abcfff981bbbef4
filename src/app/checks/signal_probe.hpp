// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/app/checks/signal_trial.hpp>

// The processes of `distdl doctor --signal`, which meet in a folder that all nodes see.
namespace distdl::app {

/// Submits a small job like those of sbatch/train.sbatch, waits for it, and returns what it has found. Its folder is
/// made in `parent`. `options`: more ones for sbatch. A request to stop cancels the job. Throws SchedulerError if it is
/// refused, does not start or does not end in time.
SignalTrial try_signals_in_job(const std::filesystem::path& parent, const std::vector<std::string>& options);

/// Tries the signals in the allocation that this process is in, without what would reach the user's own batch script.
SignalTrial try_signals_here(const std::filesystem::path& parent);

/// The parts of the job, which the functions above start.
void run_trial_supervisor(const std::filesystem::path& folder);
void run_trial_task(const std::filesystem::path& folder);

/// The batch script of the job.
std::string trial_script(const std::string& program, const std::filesystem::path& folder);

}  // namespace distdl::app
