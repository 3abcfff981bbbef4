// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <distdl/app/cli/arguments.hpp>

namespace distdl::app {

/// The argument RUN that the commands about a run take.
struct RunArgument {
  std::string text;

  void add_to(Command command);
  /// The run's folder. Throws StorageError (incomplete) with what would be accepted, if there is no such run.
  std::filesystem::path find() const;
};

/// `text`: a run folder, a job file (its run.dir is meant), the id of a run or its first digits (at least 4), or the id
/// of one of its Slurm jobs. Empty: the folder "run" here, if it is one, else the run of the user's index that was
/// written to last. Asks Slurm only about a job that no run of the index knows.
std::filesystem::path find_run(const std::string& text);

}  // namespace distdl::app
