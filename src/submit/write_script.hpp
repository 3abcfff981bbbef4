// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <distdl/submit/options.hpp>
#include <distdl/submit/sbatch_options.hpp>

namespace distdl::submit {

/// The text of sbatch/train.sbatch. Scripts that are written here do what it does: its part that runs in the job is
/// copied into them.
std::string_view train_sbatch();

/// The contents of a script to write.
struct ScriptRequest {
  SbatchOptions options;                    ///< all options, see merge_options()
  std::vector<std::string> arguments = {};  ///< arguments of "distdl run": "job.toml", "--set", "train.epochs=2"
  /// Tasks of a job array: the number of each task, and its `arguments`. Empty: it is none.
  std::vector<std::pair<std::size_t, std::vector<std::string>>> tasks = {};
  std::string program = {};  ///< distdl, with its folder
  std::string setup = {};    ///< shell lines before the program
  std::string made_by = {};  ///< the command that asks for it, for people
  std::string chain = {};    ///< id of the chain; empty: none
  std::string run = {};      ///< folder of the run, with which Slurm's record of the job names it; empty: not known
  std::string joins = {};    ///< folder of the run that the job joins; empty: it trains itself
};

std::string write_script(const ScriptRequest& request);

/// The folder of the run whose job this script was written for. Nothing if it has no such line.
std::optional<std::filesystem::path> run_folder_in(std::string_view script);

/// The options of a job: those of train.sbatch, above them the keys of the job file, above them those of the command
/// line. Throws UsageError if slurm.options cannot be read.
SbatchOptions merge_options(const Options& options, const std::vector<SbatchOption>& command_line);

/// `path` as sbatch --output takes it: it would put something else in place of "%j". Throws ConfigError if it takes no
/// such path.
std::string escape_pattern(const std::string& path);

}  // namespace distdl::submit
