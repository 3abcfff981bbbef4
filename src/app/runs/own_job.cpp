// SPDX-License-Identifier: Apache-2.0
#include <distdl/app/runs/own_job.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/own_step.hpp>

namespace distdl::app {

void check_own_job(const slurm::Allocation& job, const char* command) {
  if (const auto step = slurm::own_step())
    require<UsageError>(step->tasks == 1,
                        "\"{}\" is started by each of the {} tasks of step {}, but starts the tasks of the job itself: "
                        "call it once in the batch script, without srun, as in: sbatch train.sbatch job.toml",
                        command, step->tasks, step->id);
  require(job.component.empty(),
          "job {} is component {} of a heterogeneous job, and \"{}\" would use the nodes of this component alone; "
          "submit one job without \" : \" or \"#SBATCH hetjob\"",
          job.job, job.component, command);
}

void warn_without_scontrol() {
  if (slurm::has_scontrol()) return;
  log(Severity::warning, "{}",
      "this node has no scontrol on PATH: when the run must stop with work left, the job cannot be requeued, and ends "
      "with code 71; install Slurm's commands here, or submit a chain: distdl submit --chain N");
}

}  // namespace distdl::app
