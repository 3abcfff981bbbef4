// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/app/runs/job_log.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/version.hpp>

namespace distdl::app {
namespace {
std::string job_and_nodes(const launch::LaunchSpec& spec) {
  if (!spec.allocation) return "on " + host_name();
  const auto& allocation = *spec.allocation;
  const auto restart = allocation.restart > 0 ? fmt::format(", restart {},", allocation.restart) : std::string();
  return fmt::format("in job {}{}{} on {} {} {}", allocation.called(),
                     allocation.title.empty() ? "" : fmt::format(" ({})", printable(allocation.title)), restart,
                     allocation.nodes, allocation.nodes == 1 ? "node" : "nodes", allocation.node_list);
}

/// The number that the ranks will give to their start, as in metrics.jsonl.
std::uint64_t next_start(const launch::LaunchSpec& spec) {
  const auto owner = checkpoint::owner_of(checkpoint::real_file_system(), spec.checkpoints);
  return owner ? owner->start + 1 : 1;
}
}  // namespace

void show_times_in_job_log() {
  if (slurm::is_in_job()) show_line_times();
}

std::string head_of_log(const config::Job& job, const launch::LaunchSpec& spec) {
  if (::isatty(STDERR_FILENO) == 1) return "";
  std::error_code error;  // the path as it was given says enough
  const auto folder = std::filesystem::absolute(job.run_dir, error);
  return fmt::format("distdl {}: start {} of the run in \"{}\", {} {} {}", version(), next_start(spec),
                     error ? job.run_dir : folder.string(), spec.ranks, spec.ranks == 1 ? "rank" : "ranks",
                     job_and_nodes(spec));
}

}  // namespace distdl::app
