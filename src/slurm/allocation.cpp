// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/variables.hpp>

namespace distdl::slurm {

std::optional<Allocation> current_allocation() {
  return allocation_from(&env);
}

std::optional<std::chrono::system_clock::time_point> end_of_job_by_variable() {
  auto seconds = env_integer("SLURM_JOB_END_TIME");
  if (!seconds) return std::nullopt;
  const std::int64_t now = whole_seconds_since_1970();
  const auto end = time_from(*seconds);
  if (end && *seconds > now) return end;
  log(Severity::warning, "SLURM_JOB_END_TIME is {}, which {}; it is ignored", *seconds,
      *seconds <= now ? "is over" : "is no time");
  return std::nullopt;
}

std::string switches_of_node() {
  return switches_in(env("SLURM_TOPOLOGY_ADDR").value_or(""), env("SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""));
}

std::string name_of_node() {
  const auto name = env("SLURMD_NODENAME");
  const bool is_name = name && !name->empty() && name->find('/') == std::string::npos;  // files are named after it
  return is_name ? *name : host_name();
}

}  // namespace distdl::slurm
