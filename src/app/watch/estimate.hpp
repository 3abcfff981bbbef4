// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace distdl::app {

/// Speed of a run, as far as it is known. Times are seconds.
struct Pace {
  std::int64_t step = 0, total = 0;  ///< total 0: not known
  double run_step_seconds = 0;       ///< mean over all steps that lasted, with saves and evaluations; 0: not known
  double run_ranks = 0;              ///< mean number of ranks in these steps; 0: not known
  double start_seconds = 0;          ///< time that the ranks of the present start have trained
  std::int64_t start_steps = 0;      ///< steps in that time
  std::int64_t ranks = 0;            ///< number of ranks of the present start; 0: not known
  double training_seconds = 0;       ///< time of the steps of the whole run that lasted, with saves and evaluations
  /// Since the first step: all other time, such as failures, restarts, queues of later jobs, steps done twice.
  double lost_seconds = 0;
  double wait_seconds = 0;  ///< time until Slurm means to start the job that waits
};

struct Estimate {
  std::optional<double> seconds = {};  ///< until the last step; nothing: there is no estimate
  std::string reason = {};             ///< why there is no estimate
};

/// When the run will end if it goes on as it has. A step takes as long as in the present start; before this has done
/// many steps, what the run's steps took before counts too, in proportion to the ranks. For each second of training as
/// much time is lost as until now.
Estimate estimate(const Pace& pace);

}  // namespace distdl::app
