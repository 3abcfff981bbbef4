// SPDX-License-Identifier: Apache-2.0
// Any text as what Slurm's commands print, and as values of its variables.
#include <array>

#include <stdlib.h>

#include "target.hpp"
#include <distdl/slurm/duration.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/variables.hpp>
#include <distdl/slurm/warning_signal.hpp>

namespace {
using namespace distdl;
using namespace distdl::slurm;

void read_answer(std::string_view input) {
  static const int zone = ::setenv("TZ", "UTC0", 1);  // else each time looks for the zone's file
  static_cast<void>(zone);
  const std::string text(input);
  if (const auto job = job_in(text, "17")) {
    fuzz::demand(!job->state.empty() && job->nodes >= 0, "a job has a state");
    for (const auto& time : {job->submitted, job->started, job->ends})
      fuzz::demand(!time || time->time_since_epoch().count() > 0, "a job begins and ends after 1970");
    fuzz::demand(!job->fewest_nodes || *job->fewest_nodes > 0, "a job has nodes");
    fuzz::demand(!(job->is_alive() && job->is_inactive()), "a job runs or does not");
  }
  if (const auto partition = partition_in(text, "batch"))
    fuzz::demand(partition->grace.count() >= 0, "a grace time is none before now");
  const auto settings = settings_in(text);
  fuzz::demand(settings.kill_wait.count() >= 0 && settings.credential_life.count() > 0, "times are not negative");
  if (const auto nodes = fewest_nodes_in(text, "17")) fuzz::demand(*nodes > 0, "a job has nodes");
  const auto words = words_in(text);
  for (const std::string& word : words)
    fuzz::demand(!word.empty() && word.find_first_of(" \n") == std::string::npos, "a node's name is a word");
}

void read_text(std::string_view input) {
  const std::string text(input);
  if (const auto warning = warning_in(text))
    fuzz::demand(warning->before.count() > 0, "a warning comes before the end");
  if (const auto warning = warning_from(text)) fuzz::demand(!warning->name.empty(), "a signal has a name");
  if (const auto duration = duration_in(text)) fuzz::demand(duration->count() >= 0, "a duration is not negative");
  if (const auto time = time_in(text)) fuzz::demand(time->time_since_epoch().count() > 0, "a time is after 1970");
}

void read_hosts(std::string_view input) {
  const auto names = expand_host_list(input);
  fuzz::demand(!names.empty() && names.size() <= 65536, "a list has names");
  for (const std::string& name : names)
    fuzz::demand(!name.empty() && name[0] != '-' && name.find_first_of("[], \n/;$") == std::string::npos,
                 "a name is one");
}

/// Input: the values, each with a zero byte behind it.
void read_variables(std::string_view input) {
  constexpr std::array kNames{"SLURM_JOB_ID",       "SLURM_RESTART_COUNT", "SLURM_JOB_NUM_NODES",
                              "SLURM_NTASKS",       "SLURM_CPUS_PER_TASK", "SLURM_NTASKS_PER_NODE",
                              "SLURM_JOB_NODELIST", "SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN"};
  const auto value = [&](std::string_view name) -> std::optional<std::string> {
    std::string_view rest = input;
    for (const std::string_view known : kNames) {
      const auto end = rest.find('\0');
      if (end == rest.npos) return std::nullopt;
      if (known == name && end > 0) return std::string(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    return std::nullopt;
  };
  const std::string address = value(kNames[7]).value_or("");
  const std::string switches = switches_in(address, value(kNames[8]).value_or(""));
  fuzz::demand(address.starts_with(switches), "the switches are the begin of the address");
  const auto allocation = allocation_from(value);
  if (!allocation) return;
  fuzz::demand(!allocation->job.empty() && allocation->restart >= 0, "a job has an id");
  fuzz::demand(allocation->nodes > 0 && allocation->tasks > 0 && allocation->cpus_per_task > 0, "numbers are counts");
}

const fuzz::Target answer("slurm_answer", &read_answer), variables("slurm_variables", &read_variables),
    text("slurm_text", &read_text), hosts("slurm_hosts", &read_hosts);
}  // namespace
