// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/slurm/queries/variables.hpp>

namespace distdl::slurm {
namespace {
/// Nothing if the variable is not set. Throws ConfigError unless it is a whole number of `least` or more that an int
/// can hold.
std::optional<int> count_in(const Variable& variable, const std::string& name, int least) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  const long long number = integer_in(name, *text);
  require(number >= least && number <= std::numeric_limits<int>::max(),
          "environment variable {}=\"{}\" is out of range: expected a number from {} to {}", name, *text, least,
          std::numeric_limits<int>::max());
  return static_cast<int>(number);
}
}  // namespace

std::optional<Allocation> allocation_from(const Variable& variable) {
  auto job = variable("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  Allocation allocation;
  allocation.job = *std::move(job);
  // A job that a task of an array submits has these variables of that task.
  const auto array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID");
  if (array == allocation.job && task) allocation.name = fmt::format("{}_{}", *array, *task);
  allocation.restart = count_in(variable, "SLURM_RESTART_COUNT", 0).value_or(0);
  allocation.node_list = variable("SLURM_JOB_NODELIST").value_or("");
  allocation.nodes = count_in(variable, "SLURM_JOB_NUM_NODES", 1).value_or(1);
  allocation.tasks = count_in(variable, "SLURM_NTASKS", 0).value_or(0);
  // With --nodes=2-3 the tasks asked for can be fewer than the nodes given: what was asked per node decides.
  if (const auto per_node = count_in(variable, "SLURM_NTASKS_PER_NODE", 0)) {
    require(*per_node <= std::numeric_limits<int>::max() / allocation.nodes,
            "environment variable SLURM_NTASKS_PER_NODE={} asks for too many tasks on {} nodes", *per_node,
            allocation.nodes);
    allocation.tasks = *per_node * allocation.nodes;
  }
  if (allocation.tasks == 0) allocation.tasks = allocation.nodes;
  allocation.cpus_per_task = count_in(variable, "SLURM_CPUS_PER_TASK", 1).value_or(1);
  allocation.gpus = variable("SLURM_GPUS").value_or("");
  return allocation;
}

std::string switches_in(const std::string& address, const std::string& pattern) {
  const auto end = address.rfind('.');
  return pattern.ends_with(".node") && end != std::string::npos ? address.substr(0, end) : "";
}

}  // namespace distdl::slurm
