// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/submit/batch_script.hpp>
#include <distdl/submit/run_folder_facts.hpp>

// Mistakes of batch scripts of training jobs that can be seen before the job waits.
namespace distdl::submit {

enum class LintLevel {
  note,     ///< worth knowing
  warning,  ///< costs work or time when something happens
  error,    ///< does not work
};

struct LintRule {
  std::string_view name;
  LintLevel level;
  std::string_view meaning;  ///< as in docs/jobs.md
};

/// All rules; docs/jobs.md has the same table.
inline constexpr std::array<LintRule, 30> kLintRules{{
    {"no-interpreter", LintLevel::error, "the script does not begin with `#!`: sbatch refuses it"},
    {"dos-lines", LintLevel::error, "lines end with a carriage return: sbatch refuses the script"},
    {"option-after-command", LintLevel::error, "an `#SBATCH` line below the first command: sbatch does not read it"},
    {"option-unreadable", LintLevel::error, "an `#SBATCH` line that is no option"},
    {"option-unknown", LintLevel::warning, "an option that sbatch does not have"},
    {"option-variable", LintLevel::error, "`$NAME` in an `#SBATCH` line: sbatch expands no variables"},
    {"log-truncated", LintLevel::warning, "a requeued job empties its log: `--open-mode=append` is missing"},
    {"signal-missing", LintLevel::warning, "without `--signal` nothing warns the program before the time limit"},
    {"signal-in-foreground", LintLevel::error,
     "`--signal=B:` with a step in the foreground: the script's trap runs only after the step has ended"},
    {"signal-kills-ranks", LintLevel::warning,
     "`--signal` without `B:` kills every process of the steps that does not expect it"},
    {"signal-too-late", LintLevel::warning, "the signal comes later before the end of the job than a save takes"},
    {"signal-at-start", LintLevel::error,
     "the signal comes as long before the time limit as the job may run: each start saves and stops at once"},
    {"no-wait", LintLevel::error, "a step in the background, and no `wait`: the job ends with the script, at once"},
    {"tasks-not-gpus", LintLevel::warning, "another number of ranks than of GPUs on a node"},
    {"gpus-hide-peers", LintLevel::note, "`--gpus-per-task` hides the GPUs of the other ranks of a node"},
    {"cpus-not-inherited", LintLevel::warning, "srun does not take `--cpus-per-task` over from sbatch"},
    {"nodes-differ", LintLevel::warning, "srun asks for another number of nodes than sbatch"},
    {"mpi-unavailable", LintLevel::error, "`--mpi` names a type that this Slurm does not have"},
    {"mpi-wrong", LintLevel::warning, "ranks started with another `--mpi` than pmix may not find each other"},
    {"run-in-step", LintLevel::error,
     "`distdl run` or `distdl join` below srun: it starts the ranks itself, and would do so in each task"},
    {"rank-in-batch-shell", LintLevel::error,
     "`$SLURM_PROCID` in the batch script itself: it is 0 there for all ranks"},
    {"port-fixed", LintLevel::warning, "a port that is fixed: a second job on the node takes it too"},
    {"requeue-refused", LintLevel::warning, "`--no-requeue`, but the run means to be requeued"},
    {"no-scontrol", LintLevel::warning, "the run means to be requeued, but there is no scontrol on PATH here"},
    {"heterogeneous", LintLevel::error, "`#SBATCH hetjob`: the run would use the nodes of one component alone"},
    {"folder-of-one-node", LintLevel::warning, "the run folder lies in the memory or on a disk of one node"},
    {"folder-full", LintLevel::error, "the run folder has no room for two checkpoints"},
    {"memory-too-small", LintLevel::error, "a node has less memory than its ranks would need, by the job's forecast"},
    {"tensor-group-divided", LintLevel::warning, "ranks that share the tensor shards of a layer lie on several nodes"},
    {"folder-world-readable", LintLevel::note, "everybody may read the run folder"},
}};

struct LintFinding {
  std::string_view rule;
  LintLevel level = LintLevel::warning;  ///< level of the rule, or less where that is milder here
  int line = 0;                          ///< line of the script; 0: none
  std::string message;                   ///< a sentence with object, what was expected, and what to do
};

/// Facts beside the script that lints use. Nothing is complained about that is unknown.
struct LintFacts {
  std::optional<double> save_seconds = {};  ///< duration of a save
  bool save_is_measured = false;            ///< by this run, before; else it is expected
  std::optional<RunFolderFacts> folder = {};
  std::vector<std::string> mpi_types = {};  ///< types that srun offers; empty: not known
  bool run_requeues = true;                 ///< run.requeue of the job file
  bool lacks_scontrol = false;              ///< other commands of Slurm are there
  std::string memory_problem = {};          ///< why a node's memory does not suffice; empty: it does, or is not known
  std::string tensor_problem = {};          ///< tensor group that lies on several nodes; empty: none, or not known
};

/// Ordered by line.
std::vector<LintFinding> lint(const BatchScript& script, const LintFacts& facts);

const char* name_of(LintLevel level);

/// "job.sbatch:12: warning: log-truncated: ...", in printable characters whatever the script has.
std::string to_text(const LintFinding& finding, const std::string& script_name);

}  // namespace distdl::submit
