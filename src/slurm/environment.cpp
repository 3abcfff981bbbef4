// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <mutex>

#include <fmt/ranges.h>

#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/slurm_variables.hpp>
#include <distdl/slurm/environment.hpp>

namespace distdl::slurm {
namespace {
constexpr const char* kClustersVariable = "SLURM_CLUSTERS";
constexpr const char* kJobVariable = "SLURM_JOB_ID";

void tell_ignored_variables() {
  std::vector<std::string> ignored;
  for (const auto& variable : slurm_variables()) {
    const std::string& name = variable.first;
    const bool is_taken = std::ranges::any_of(site_options(), [&](const auto& each) { return each.variable == name; });
    if (name.starts_with("SBATCH_") && !is_taken && !variable.second.empty()) ignored.push_back(name);
  }
  if (ignored.empty()) return;
  log(Severity::warning, "{} {} not count for the job; give the option of sbatch, as --time=5, or the key in [slurm]",
      fmt::join(ignored, ", "), ignored.size() == 1 ? "does" : "do");
}
}  // namespace

std::map<std::string, std::string> variables_for_commands() {
  std::map<std::string, std::string> variables;
  for (const char* name : {"SLURM_CONF", "SLURM_JWT", kClustersVariable})
    if (const auto value = env(name)) variables[name] = *value;
  if (env(kJobVariable)) variables.erase(kClustersVariable);
  return variables;
}

std::map<std::string, std::string> variables_for_step(const Allocation& job) {
  auto variables = variables_for_commands();
  variables[kJobVariable] = job.job;
  variables["SLURM_RESTART_COUNT"] = std::to_string(job.restart);
  const auto underscore = job.name.find('_');
  if (underscore == std::string::npos) return variables;
  variables["SLURM_ARRAY_JOB_ID"] = job.name.substr(0, underscore);
  variables["SLURM_ARRAY_TASK_ID"] = job.name.substr(underscore + 1);
  return variables;
}

std::map<std::string, std::string> variables_of_job() {
  std::map<std::string, std::string> variables;
  for (const char* name :
       {kJobVariable, "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME",
        "DISTDL_END_OF_JOB", "DISTDL_WARNING_SECONDS", "DISTDL_PREEMPTION", "DISTDL_GRACE_SECONDS"})
    variables[name] = env(name).value_or("");
  return variables;
}

std::map<std::string, std::string> variables_of_rank(const RankPlace& place) {
  auto variables = slurm_variables();
  if (!variables.contains(kJobVariable)) return {};
  const auto set = [&variables](std::initializer_list<const char*> names, int value) {
    for (const char* name : names) variables[name] = std::to_string(value);
  };
  set({"SLURM_PROCID"}, place.rank);
  set({"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}, place.ranks);
  set({"SLURM_LOCALID"}, place.local_rank);
  set({"SLURM_NTASKS_PER_NODE"}, place.local_ranks);
  set({"SLURM_NODEID"}, place.node);
  set({"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"}, place.nodes);
  for (const char* name : {"SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_GTIDS"}) variables.erase(name);
  return variables;
}

const std::vector<SiteOption>& site_options() {
  static const std::vector<SiteOption> options{{"SBATCH_ACCOUNT", "account", "-A"},
                                               {"SBATCH_PARTITION", "partition", "-p"},
                                               {"SBATCH_QOS", "qos", "-q"},
                                               {"SBATCH_RESERVATION", "reservation", ""},
                                               {"SBATCH_WCKEY", "wckey", ""}};
  return options;
}

std::map<std::string, std::string> wished_by_site(const std::function<bool(const SiteOption&)>& is_given) {
  static std::once_flag told;
  std::call_once(told, tell_ignored_variables);
  std::map<std::string, std::string> wished;
  for (const SiteOption& each : site_options()) {
    const auto value = env(each.variable);
    if (!value || is_given(each)) continue;
    log(Severity::info, "{} {} is from {}", each.option, printable(*value), each.variable);
    wished[each.option] = *value;
  }
  return wished;
}

}  // namespace distdl::slurm
