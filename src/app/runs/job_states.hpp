// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace distdl::app {

/// State of a job, as Slurm reports it.
struct JobState {
  std::string job, state, reason;  ///< "17", "PENDING", "Resources"; no reason: empty
  /// Seconds since 1970. `start`: of a job that waits, when Slurm means to start it.
  std::optional<double> start = {}, end = {};
  std::string nodes = {};  ///< "n[1-3]"
};

/// "17", "12_3".
bool is_job_id(const std::string& text);

/// One question to Slurm for all of them. Jobs that it does not know (any more) are left out; all are where there is no
/// Slurm, or it does not answer, which is a warning.
std::vector<JobState> ask_job_states(std::vector<std::string> jobs);

/// States of the jobs in the output of squeue.
std::vector<JobState> job_states_in(const std::string& text);

}  // namespace distdl::app
