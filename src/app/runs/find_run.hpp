// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/app/cli/arguments.hpp>

namespace distdl::app {

/// The argument RUN that the commands about a run take.
class RunArgument {
 public:
  void add_to(Command command);
  /// The run's folder, as find_run(). If the argument was not given: the folder "run" here, if it is one, else the run
  /// of the user's index that was written to last.
  std::filesystem::path find() const;

 private:
  std::string text_;
  std::optional<Option> option_;
};

/// `text`: a run folder, a job file (its run.dir is meant), the id of a run or its first digits (at least 4), or the id
/// of one of its Slurm jobs. Asks Slurm only about a job that no run of the index knows. Throws StorageError
/// (incomplete) with what would be accepted, if there is no such run, and as require_readable(); UsageError if the text
/// is empty.
std::filesystem::path find_run(const std::string& text);

/// True if the folder is one of a run, as far as it can be looked at.
bool is_run(const std::filesystem::path& folder);
/// Throws StorageError that names the file, if this user has no right to read what a run tells.
void require_readable(const std::filesystem::path& run_folder);

struct NamedRun {
  std::string name;
  std::filesystem::path folder;
};

/// Each as find_run(). The folder of a sweep, or another one that has run folders in it and is none, stands for all of
/// these, by name; a warning names those that cannot be read.
std::vector<NamedRun> find_runs(const std::vector<std::string>& texts);

/// The folder "run" here, if it is one of a run, else that of the run of the user's index that was written to last.
/// Throws StorageError: incomplete if there is none, else as require_readable().
std::filesystem::path newest_run();

}  // namespace distdl::app
