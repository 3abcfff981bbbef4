// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace distdl::slurm {

/// A task of a step of srun.
struct OwnStep {
  std::string id;  ///< "17.0"
  int tasks = 1;   ///< tasks of the step
};

/// Returns the step of srun that this process is a part of, by the slurmstepd above it: variables may be those of
/// another job, from within which this one was submitted. Nothing in a batch script, in a shell of salloc, and where
/// the processes above are hidden.
std::optional<OwnStep> own_step();

/// "17.0" of "slurmstepd: [17.0]", the title of the slurmstepd of a step of srun; nothing of any other title, as
/// "slurmstepd: [17.batch]".
std::optional<std::string> step_in_title(const std::string& title);

}  // namespace distdl::slurm
