// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/slurm/queries/fields.hpp>
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

constexpr int kMostTasks = std::numeric_limits<int>::max();

/// Whether a job asked for so many tasks on each node, rather than for `tasks` in all with that many on a node at most.
/// Without --ntasks, sbatch multiplies by the fewest nodes asked for, and with --nodes=2-3 more may be given.
bool are_asked_per_node(int tasks, int per_node) {
  return per_node > 0 && tasks % per_node == 0;
}

/// Whether the job has begun with all of these nodes, and Slurm has taken some of them out since (--no-kill). Slurm
/// sets the list at each start, so that it is no other job's.
bool has_lost_some_of(const JobRecord& record, const std::string& all) try {
  const auto begun = expand_host_list(all), left = expand_host_list(record.node_list);
  return left.size() < begun.size() && std::ranges::all_of(left, [&](const std::string& node) {
           return std::ranges::find(begun, node) != begun.end();
         });
} catch (const SchedulerError&) {  // no list of hosts
  return false;
}
}  // namespace

std::optional<std::string> job_called_by(const Variable& variable) {
  auto job = variable("SLURM_JOB_ID");
  // A job that a task of an array submits has these variables of that task.
  const auto array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID");
  return job && array == job && task ? fmt::format("{}_{}", *array, *task) : job;
}

Allocation allocation_of(const JobRecord& record, const Variable& variable) {
  Allocation allocation;
  allocation.job = record.id;
  if (record.array_task.starts_with(record.id + "_")) allocation.name = record.array_task;
  allocation.title = record.name;
  allocation.component = record.component;
  const auto own = number_at<std::int64_t>(variable("SLURM_RESTART_COUNT").value_or("0")).value_or(0);
  allocation.restart = std::clamp<std::int64_t>(own, 0, record.restarts);
  allocation.node_list = record.node_list;
  allocation.nodes = std::max(1, record.nodes);
  if (const auto all = variable("SLURM_JOB_NODELIST"); all && has_lost_some_of(record, *all)) {
    allocation.node_list = *all;
    allocation.nodes = static_cast<int>(expand_host_list(*all).size());
  }
  allocation.tasks_per_node = record.tasks_per_node;
  allocation.tasks =
      are_asked_per_node(record.tasks, record.tasks_per_node) && record.tasks_per_node <= kMostTasks / allocation.nodes
          ? record.tasks_per_node * allocation.nodes
          : std::max(record.tasks, allocation.nodes);
  allocation.cpus_per_task = std::max<std::int64_t>(1, record.cpus_per_task);
  allocation.gpus = record.gpus;
  return allocation;
}

std::optional<Allocation> allocation_from(const Variable& variable) {
  auto job = variable("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  Allocation allocation;
  allocation.job = *std::move(job);
  if (auto name = job_called_by(variable); name != allocation.job) allocation.name = *std::move(name);
  allocation.title = variable("SLURM_JOB_NAME").value_or("");
  if (count_in(variable, "SLURM_HET_SIZE", 0).value_or(0) > 1) allocation.component = allocation.job;
  allocation.restart = count_in(variable, "SLURM_RESTART_COUNT", 0).value_or(0);
  allocation.node_list = variable("SLURM_JOB_NODELIST").value_or("");
  allocation.nodes = count_in(variable, "SLURM_JOB_NUM_NODES", 1).value_or(1);
  allocation.tasks = count_in(variable, "SLURM_NTASKS", 0).value_or(0);
  if (const auto per_node = count_in(variable, "SLURM_NTASKS_PER_NODE", 0)) {
    require(*per_node <= std::numeric_limits<int>::max() / allocation.nodes,
            "environment variable SLURM_NTASKS_PER_NODE={} asks for too many tasks on {} nodes", *per_node,
            allocation.nodes);
    if (are_asked_per_node(allocation.tasks, *per_node)) allocation.tasks = *per_node * allocation.nodes;
    allocation.tasks_per_node = *per_node;
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
