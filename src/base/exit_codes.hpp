// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace distdl {

/// Exit codes of every distdl program. srun reports the highest code of its tasks, so a cause has a higher number than
/// its consequence (a lost peer). kExitCodes has all other properties of the codes.
enum class ExitCode : int {
  ok = 0,
  corrupt = 2,
  incomplete = 3,
  incompatible = 4,
  usage = 64,
  peer_lost = 69,
  internal = 70,
  scheduler = 71,
  corruption = 72,
  superseded = 73,
  storage = 74,
  requeue = 75,
  stopped = 76,
  irreproducible = 77,
  config = 78,
  program = 79,
};

/// The reaction of the supervisor when the ranks of a run have ended.
enum class RestartDecision {
  finished,
  resume_later,  ///< stopped on purpose: report it; the same command continues the run
  relaunch,      ///< relaunch from the newest checkpoint or snapshot
  give_up        ///< a relaunch would fail in the same way
};

struct ExitCodeEntry {
  ExitCode code;
  std::string_view name, meaning;  ///< as in docs/exit-codes.md
  RestartDecision restart;
  std::string_view cause;  ///< the code of the cause in records: docs/metrics.md; empty: it is no failure
};

/// All exit codes in ascending order: the help text, the supervisor and a test of docs/exit-codes.md read this table.
inline constexpr std::array<ExitCodeEntry, 16> kExitCodes{{
    {ExitCode::ok, "ok", "all done", RestartDecision::finished, ""},
    {ExitCode::corrupt, "corrupt", "a checkpoint or data set is damaged", RestartDecision::give_up, "input"},
    {ExitCode::incomplete, "incomplete", "something needed is missing: no restorable checkpoint, a file of a data set",
     RestartDecision::give_up, "input"},
    {ExitCode::incompatible, "incompatible",
     "a checkpoint of another model or data set, a data set that was replaced during the run, a file of another format",
     RestartDecision::give_up, "input"},
    {ExitCode::usage, "usage", "the command line is wrong", RestartDecision::give_up, "input"},
    {ExitCode::peer_lost, "peer lost", "another rank died, froze or could not be reached", RestartDecision::relaunch,
     "peer_lost"},
    {ExitCode::internal, "internal", "a defect of distdl", RestartDecision::relaunch, "exit_code"},
    {ExitCode::scheduler, "scheduler", "Slurm or the bootstrap (PMIx, rendezvous) failed", RestartDecision::relaunch,
     "scheduler"},
    {ExitCode::corruption, "corruption", "an audit found wrong bits in the memory or the results of this rank",
     RestartDecision::relaunch, "corruption"},
    {ExitCode::superseded, "superseded", "another start has the run folder, or took it while this one ran",
     RestartDecision::give_up, "unknown"},
    {ExitCode::storage, "storage",
     "the file system refused: full, unwritable, I/O error, a file beyond `ulimit -f`; or a result could not be "
     "written to "
     "stdout",
     RestartDecision::give_up, "storage"},
    {ExitCode::requeue, "requeue",
     "stopped on purpose: with everything saved, before there was anything to save, or between two launches, when the "
     "newest "
     "checkpoint or snapshot counts",
     RestartDecision::resume_later, "stop"},
    {ExitCode::stopped, "stopped",
     "stopped for good, with everything saved, because a user asked for it: the file STOP in the run folder, `distdl "
     "cancel --after-save`",
     RestartDecision::give_up, "user"},
    {ExitCode::irreproducible, "irreproducible",
     "after a restore, the first step gave another loss than the same step of an earlier start",
     RestartDecision::give_up, "corruption"},
    {ExitCode::config, "configuration",
     "the job file or the input that it names is wrong, or a limit of the process (`ulimit -n`) is too low",
     RestartDecision::give_up, "input"},
    {ExitCode::program, "program failed", "the program of run.command ended with a code that means nothing else here",
     RestartDecision::relaunch, "exit_code"},
}};

/// The entry of `code`. Null if no program of distdl uses that code.
constexpr const ExitCodeEntry* entry_of(int code) {
  for (const ExitCodeEntry& entry : kExitCodes)
    if (static_cast<int>(entry.code) == code) return &entry;
  return nullptr;
}

/// As the table says; relaunch after a signal (128 + n); else give up. The rule that all ask is in restart.hpp.
constexpr RestartDecision restart_decision(int code) {
  if (const ExitCodeEntry* entry = entry_of(code)) return entry->restart;
  return code >= 128 ? RestartDecision::relaunch : RestartDecision::give_up;
}

/// Whether a process that ended with this code has computed wrong bits.
constexpr bool is_corruption(int code) {
  return code == static_cast<int>(ExitCode::corruption);
}

/// Whether a rank that ended with this code has a cause of its own, which a relaunch may help: not a lost peer, which
/// is the consequence of another rank's end.
constexpr bool is_cause(int code) {
  return restart_decision(code) == RestartDecision::relaunch && code != static_cast<int>(ExitCode::peer_lost);
}

/// Whether exit code `code` tells more about ranks that failed together than `other`: what a relaunch cannot help,
/// before wrong bits, before the cause of a crash, before a lost peer, before a stop, before ok.
bool is_worse(int code, int other);

}  // namespace distdl
