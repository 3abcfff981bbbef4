// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include <fmt/ranges.h>

#include <distdl/base/env.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/slurm/environment.hpp>

namespace distdl::launch {
namespace {
using Words = std::vector<std::string>;

Words one_task_per_node(const LaunchSpec& spec) {
  const auto& job = *spec.allocation;
  return {fmt::format("--ntasks={}", job.nodes), "--ntasks-per-node=1",
          fmt::format("--cpus-per-task={}", job.cpus_per_task * ranks_on_a_node(spec)), "--no-kill", "--wait=0"};
}

/// The tasks of the step: all ranks, which end as soon as one has ended; or an agent a node, each of which ends when
/// the run has, whatever becomes of the others.
Words tasks_of(const LaunchSpec& spec, const Options& options) {
  if (spec.agents) return one_task_per_node(spec);
  Words words{fmt::format("--ntasks={}", spec.ranks), fmt::format("--cpus-per-task={}", spec.allocation->cpus_per_task),
              fmt::format("--wait={:.0f}", std::ceil(std::max(1.0, options.grace_seconds)))};
  // srun does not inherit SLURM_NTASKS_PER_NODE, and would fill the first node before the second.
  if (const int most = spec.allocation->tasks_per_node; most > 0)
    words.push_back(fmt::format("--ntasks-per-node={}", most));
  return words;
}

Words command_of(const LaunchSpec& spec, const std::string& launch_id) {
  Words command = spec.worker;
  if (!spec.agents) return command;
  command.at(1) = "agent";
  command.insert(command.end(), {"--launch", launch_id, "--ranks", std::to_string(spec.ranks), "--min-nodes",
                                 std::to_string(spec.min_nodes)});
  return command;
}

/// srun's options for the nodes of a launch. With --overlap, srun does not wait for processors that another step still
/// holds: the step of an earlier launch, which cannot end on a lost node, or the step in which "distdl run" itself
/// runs, as in a shell of "srun --pty".
Words nodes_to_use(const slurm::Allocation& job) {
  if (job.only.empty()) return job.in_step ? Words{"--overlap"} : Words();
  Words words{fmt::format("--nodelist={}", fmt::join(job.only, ",")), "--overlap"};
  if (!job.gpus.empty()) words.push_back("--gpus=" + job.gpus);
  return words;
}

Words srun_words(const LaunchSpec& spec, const std::string& step, const Words& tasks, const Words& command) {
  const auto& job = *spec.allocation;
  Words words{"srun", "--jobid=" + job.job, "--job-name=" + step, "--mpi=" + spec.mpi,
              fmt::format("--nodes={}", job.nodes)};
  const auto append = [&words](const Words& more) { words.insert(words.end(), more.begin(), more.end()); };
  append(tasks);
  append({"--kill-on-bad-exit=0", "--unbuffered",
          "--export=ALL",        // also where sbatch was told --export=NONE, which srun would repeat
          "--disable-status"});  // a SIGINT goes on to the ranks, which save; else srun only prints its status
  append(nodes_to_use(job));
  append(command);
  return words;
}

agent::Process srun_of(const LaunchSpec& spec, const Options& options, const std::string& launch_id) {
  agent::Process srun{srun_words(spec, step_name(launch_id), tasks_of(spec, options), command_of(spec, launch_id)),
                      slurm::variables_of(spec.limits)};
  srun.variables.merge(slurm::variables_for_step(*spec.allocation));
  return srun;
}

/// The share of "8" or "a100:8" that `some` of `all` nodes have; a list of several types stays as it is.
std::string share_of_gpus(const std::string& gpus, int some, int all) {
  const auto number = gpus.rfind(':') + 1;  // 0 if there is no type
  std::int64_t count = 0;
  auto [end, error] = std::from_chars(gpus.data() + number, gpus.data() + gpus.size(), count);
  if (error != std::errc{} || end != gpus.data() + gpus.size() || gpus.find(',') != std::string::npos) return gpus;
  return fmt::format("{}{}", gpus.substr(0, number), std::max<std::int64_t>(1, count * some / all));
}
}  // namespace

std::string step_name(const std::string& launch_id) {
  return "distdl-" + launch_id;
}

int ranks_on_a_node(const LaunchSpec& spec) {
  const int nodes = spec.allocation ? spec.allocation->nodes - spec.spares : 1;
  return (spec.ranks + nodes - 1) / nodes;
}

int nodes_needed(const LaunchSpec& spec, std::optional<int> fewest) {
  const int nodes = spec.allocation->nodes;
  return std::max(1, std::min(fewest.value_or(nodes), nodes - spec.spares));
}

LaunchSpec on_nodes(LaunchSpec spec, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return spec;
  auto& job = *spec.allocation;
  const int count = static_cast<int>(nodes.size());
  const int spares = std::max(0, spec.spares - (job.nodes - count));
  spec.ranks = std::max(
      1, static_cast<int>(static_cast<std::int64_t>(spec.ranks) * (count - spares) / (job.nodes - spec.spares)));
  if (spares != spec.spares) spec.worker.insert(spec.worker.end(), {"--set", fmt::format("run.spares={}", spares)});
  spec.spares = spares;
  if (!job.gpus.empty()) job.gpus = share_of_gpus(job.gpus, count, job.nodes);
  job.nodes = count;
  job.only = nodes;
  job.node_list = fmt::format("{}", fmt::join(nodes, ","));
  return spec;
}

std::vector<std::string> srun_on_each_node(const LaunchSpec& spec, const std::string& step,
                                           const std::vector<std::string>& command) {
  return srun_words(spec, step, one_task_per_node(spec), command);
}

std::vector<agent::Process> processes_of(const LaunchSpec& spec, const Options& options,
                                         const std::filesystem::path& rendezvous, const std::string& launch_id) {
  if (spec.allocation) return {srun_of(spec, options, launch_id)};
  std::vector<agent::Process> processes;
  processes.reserve(static_cast<std::size_t>(spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) {
    processes.push_back({spec.worker,
                         {{"DISTDL_RANK", std::to_string(rank)},
                          {"DISTDL_WORLD_SIZE", std::to_string(spec.ranks)},
                          {"DISTDL_RENDEZVOUS", rendezvous.string()},
                          {"DISTDL_LAUNCH_ID", launch_id}}});
    processes.back().variables.merge(slurm::variables_of(spec.limits));
    // Nobody beyond this machine has business at their ports. comm.interface, if it is set, counts for more. Of UCX's
    // transports only tcp can use loopback.
    const bool uses_tcp = env("UCX_TLS").value_or("tcp").find("tcp") != std::string::npos;
    if (!env("UCX_NET_DEVICES") && uses_tcp) processes.back().variables["UCX_NET_DEVICES"] = "lo";
  }
  return processes;
}

}  // namespace distdl::launch
