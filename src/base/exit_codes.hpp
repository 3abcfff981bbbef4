// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace distdl {

/// Exit codes of every distdl program. srun reports the highest code of its tasks, so a cause has a higher number than
/// its consequence (a lost peer). What else the program knows of a code is in kExitCodes.
enum class ExitCode : int {
  ok = 0,
  corrupt = 2,
  incomplete = 3,
  incompatible = 4,
  usage = 64,
  peer_lost = 69,
  internal = 70,
  scheduler = 71,
  superseded = 73,
  storage = 74,
  requeue = 75,
  config = 78,
};

/// What the supervisor does with a run whose ranks have ended.
enum class RestartDecision {
  finished,
  resume_later,  ///< stopped on purpose: report it, and run the same command again
  relaunch,      ///< from the newest checkpoint or snapshot
  give_up        ///< a relaunch would end the same way
};

struct ExitCodeEntry {
  ExitCode code;
  std::string_view name, meaning;  ///< as in docs/exit-codes.md
  RestartDecision restart;
};

/// All exit codes in ascending order: the help text, the supervisor and a test of docs/exit-codes.md read this table.
inline constexpr std::array<ExitCodeEntry, 12> kExitCodes{{
    {ExitCode::ok, "ok", "all done", RestartDecision::finished},
    {ExitCode::corrupt, "corrupt", "a checkpoint or data set is damaged", RestartDecision::give_up},
    {ExitCode::incomplete, "incomplete", "something needed is missing: no restorable checkpoint, a file of a data set",
     RestartDecision::give_up},
    {ExitCode::incompatible, "incompatible",
     "a checkpoint of another model or data set, a data set that was replaced during the run, a file of another format",
     RestartDecision::give_up},
    {ExitCode::usage, "usage", "the command line is wrong", RestartDecision::give_up},
    {ExitCode::peer_lost, "peer lost", "another rank died, froze or could not be reached", RestartDecision::relaunch},
    {ExitCode::internal, "internal", "a defect of distdl", RestartDecision::relaunch},
    {ExitCode::scheduler, "scheduler", "Slurm or the bootstrap (PMIx, rendezvous) failed", RestartDecision::relaunch},
    {ExitCode::superseded, "superseded", "another start has the run folder, or took it over while this one ran",
     RestartDecision::give_up},
    {ExitCode::storage, "storage",
     "the file system refused: full, unwritable, I/O error, a file beyond `ulimit -f`; or a result could not be "
     "written to "
     "stdout",
     RestartDecision::give_up},
    {ExitCode::requeue, "requeue",
     "stopped on purpose: with everything saved, before there was anything to save, or between two launches, when the "
     "newest "
     "checkpoint or snapshot counts",
     RestartDecision::resume_later},
    {ExitCode::config, "configuration",
     "the job file or the input that it names is wrong, or a limit of the process (`ulimit -n`) is too low",
     RestartDecision::give_up},
}};

/// The entry of `code`; null if no program of distdl ends with it.
constexpr const ExitCodeEntry* entry_of(int code) {
  for (const ExitCodeEntry& entry : kExitCodes)
    if (static_cast<int>(entry.code) == code) return &entry;
  return nullptr;
}

/// As the table says; relaunch after a signal (128 + n); else give up.
constexpr RestartDecision restart_decision(int code) {
  if (const ExitCodeEntry* entry = entry_of(code)) return entry->restart;
  return code >= 128 ? RestartDecision::relaunch : RestartDecision::give_up;
}

}  // namespace distdl
