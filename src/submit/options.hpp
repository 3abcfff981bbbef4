// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::submit {

/// Resources that a job asks Slurm for. Where a field is empty or 0, the #SBATCH lines of sbatch/train.sbatch hold;
/// options on the command line of "distdl submit" beat both.
struct Options {
  std::string nodes;  ///< "8", or "6-8": the run goes on after it has lost two
  std::string time;   ///< as sbatch takes it: minutes, "HH:MM:SS", "D-HH:MM:SS"
  std::string partition, account, qos, constraint;
  std::int64_t tasks_per_node = 0;  ///< ranks on a node: as many as it has GPUs
  std::int64_t cpus_per_task = 0;
  std::string gpus_per_node;  ///< "4", "a100:4"
  std::string memory;         ///< memory of a node, "64G"
  bool exclusive = true;
  std::string signal;    ///< "B:USR1@120"
  std::string job_name;  ///< in squeue
  std::string options;   ///< any other options of sbatch, as on its command line
  std::string setup;     ///< shell lines before the program, as "module load cuda"
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit(
      "slurm.nodes", options.nodes,
      "`distdl submit`: number of nodes; with a range, as \"6-8\", the run continues after it has lost two; empty: 2");
  visit("slurm.time", options.time,
        "`distdl submit`: limit of the job's time, as sbatch takes it: \"12:00:00\", \"2-00:00:00\"; empty: one hour");
  visit("slurm.partition", options.partition, "`distdl submit`: partition; empty: the site's default");
  visit("slurm.account", options.account, "`distdl submit`: account that pays; empty: the user's default");
  visit("slurm.qos", options.qos, "`distdl submit`: quality of service; empty: the default");
  visit("slurm.constraint", options.constraint, "`distdl submit`: features that the nodes must have; empty: any");
  visit("slurm.tasks_per_node", options.tasks_per_node,
        "`distdl submit`: ranks on each node; best one per GPU, or one per core; 0: one");
  visit("slurm.cpus_per_task", options.cpus_per_task, "`distdl submit`: cores of a rank; 0: Slurm's default");
  visit("slurm.gpus_per_node", options.gpus_per_node,
        "`distdl submit`: GPUs of each node, \"4\" or \"a100:4\"; empty: none are asked for");
  visit("slurm.memory", options.memory, "`distdl submit`: memory of each node, \"64G\"; empty: the site's default");
  visit("slurm.exclusive", options.exclusive, "`distdl submit`: share the nodes with no other job");
  visit(
      "slurm.signal", options.signal,
      "`distdl submit`: signal before the end of the job, as \"B:USR1@120\"; empty: B:USR1, so early that a save fits");
  visit("slurm.job_name", options.job_name, "`distdl submit`: name of the job; empty: distdl");
  visit("slurm.options", options.options,
        "`distdl submit`: other options of sbatch, as on its command line: \"--mail-type=END "
        "--reservation=maintenance\"");
  visit("slurm.setup", options.setup,
        "`distdl submit`: shell lines that run in the job before the program, as \"module load cuda\"");
}

}  // namespace distdl::submit
