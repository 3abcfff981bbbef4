// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/app/checks/findings.hpp>
#include <distdl/slurm/job_limits.hpp>

// Findings of `distdl doctor --signal`: which process of a trial job received which signal when. Times are seconds
// since 1970.
namespace distdl::app {

/// A process of the trial, as recorded in a file of its own: "batch" (the script), "supervisor" or "task".
struct TrialProcess {
  struct Event {
    std::string signal;  ///< "USR1"
    double time = 0;
  };
  std::string part, host;
  int pid = 0;
  std::vector<Event> events = {};
};

/// Stages of the trial, in this order.
enum class TrialStage {
  tasks,  ///< SIGTERM to all tasks, as Slurm does it at a preemption
  batch,  ///< SIGUSR2 to the batch script, which passes it on to the supervisor, and that USR1 by srun to the tasks
  srun,   ///< SIGINT to srun, which passes it on to the tasks
  by_warning,  ///< waited for the USR1 of --signal=B:USR1@60
};
const char* name_of(TrialStage stage);

struct SignalTrial {
  struct Stage {
    TrialStage stage = TrialStage::tasks;
    double time = 0;
  };
  std::vector<Stage> stages = {};
  std::vector<TrialProcess> processes = {};
  int tasks = 0;                 ///< number of tasks that were started
  std::string job = {};          ///< Slurm's id
  slurm::JobLimits limits = {};  ///< as Slurm reports them within the job
  std::optional<bool> may_requeue = {};
  std::string scheduler = {};  ///< "libslurm 22.05"
};

/// The files of the trial: stages, limits and one of each process.
SignalTrial read_trial(const std::filesystem::path& folder);

/// Checks that distdl's contract with the batch script works here.
std::vector<Finding> judge(const SignalTrial& trial);

std::string to_text(const SignalTrial& trial);
nlohmann::ordered_json to_json(const SignalTrial& trial);

}  // namespace distdl::app
