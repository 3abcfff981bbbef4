// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/submit/lint.hpp>
#include <distdl/submit/write_script.hpp>

namespace distdl::app {

/// Request of a user to submit a job.
struct SubmissionWish {
  JobArguments job;
  std::vector<submit::SbatchOption> options;  ///< options of the command line
  int links = 1;                              ///< number of jobs in the chain; 1: no chain
  std::string made_by;                        ///< the command, for people
};

/// A job that was checked, and its script.
struct PlannedSubmission {
  std::filesystem::path run_folder;
  std::string run_id = {};  ///< new ones are not written to the folder yet
  std::string chain = {};   ///< empty: none
  std::string script = {};  ///< text of the script
  std::string what = {};    ///< what the job trains, for people
  std::vector<submit::LintFinding> findings = {};
  std::vector<std::string> avoided = {};  ///< nodes that the job excludes, besides the user's
};

/// Checks the job as "distdl run --check" does, and writes and lints the script. Also forecasts
/// whether a node's memory suffices. Changes nothing but, where --chdir asks for it, the current folder. Throws Error,
/// as a run would.
PlannedSubmission plan_submission(const SubmissionWish& wish);

/// As plan_submission(), for a job that joins a run which goes on. Throws UsageError if the run cannot be joined.
PlannedSubmission plan_join(const std::filesystem::path& run_folder, const std::vector<submit::SbatchOption>& options,
                            const std::string& made_by);

/// Prints `text`, which tells of jobs that Slurm has accepted. Throws StorageError that names them if stdout cannot be
/// written: without their numbers nobody could cancel them.
void print_accepted(const std::string& text, const std::vector<std::string>& jobs);

/// Facts about a run for the lints: its folder, the time that saves take, and, with `asks_slurm`, the types of srun
/// --mpi. `state_bytes`: size of a checkpoint; 0: not known.
submit::LintFacts gather_facts(const config::Job& job, std::uint64_t state_bytes, bool asks_slurm);

/// Facts about a script of a user, which may start "distdl run" with a job file that can be read.
submit::LintFacts gather_facts(const submit::BatchScript& script);

}  // namespace distdl::app
