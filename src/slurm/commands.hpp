// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/process.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {

/// Runs a command of Slurm, as run_command(), with variables_for_commands() and `variables` of Slurm's alone. If it
/// cannot be started for lack of processes or files, that counts as a failed command, so that it does not end the run.
CommandResult ask(const std::vector<std::string>& command, Milliseconds limit, Milliseconds grace = {},
                  const std::optional<std::string>& input = {},
                  const std::map<std::string, std::string>& variables = {});

/// Whether there is a scontrol on PATH. Sites may install Slurm's commands on login nodes only.
bool has_scontrol();

/// Why a command of Slurm failed, in its own words on one line: "says \"...\"", or that it did not end within `limit`,
/// or could not be started.
std::string cause_of(const CommandResult& result, Milliseconds limit);

/// "17", "12_3" or "17+1". Anything else is refused with SchedulerError, as a name that begins with "-" would be an
/// option of the command that gets it.
void check_job_id(const std::string& id);

/// The questions as calls of scontrol.
class Commands final : public Queries {
 public:
  std::string description() const override { return "scontrol"; }
  std::optional<JobRecord> job(const std::string& id) override;
  std::optional<Partition> partition(const std::string& name) override;
  Settings settings() override;
  std::optional<std::string> batch_script(const std::string& id) override;

  /// The release of the commands, "22.05"; nothing where there are none, or they cannot ask the controller.
  static std::optional<std::string> release_if_usable();
};

}  // namespace distdl::slurm
