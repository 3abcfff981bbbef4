// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace distdl::slurm {

/// sbatch --signal=[B:]SIGNAL[@SECONDS].
struct WarningSignal {
  std::string name = "USR1";        ///< without "SIG"
  std::chrono::seconds before{60};  ///< the end of the job; Slurm may send it up to 60 s earlier
  bool to_batch_shell = false;      ///< "B:": to the batch script alone, else to all processes of all steps
};

/// Reads a value such as "B:USR1@60". Nothing for text that is none, and for values that send no signal: "0", "USR1@0".
std::optional<WarningSignal> warning_from(const std::string& value);

/// The warning that a batch script's #SBATCH lines ask for, the last of them; options given to sbatch itself are not in
/// the script. Nothing if they ask for none.
std::optional<WarningSignal> warning_in(const std::string& script);

}  // namespace distdl::slurm
