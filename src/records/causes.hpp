// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace distdl::records {

/// Why ranks, a launch or a run ended: a code for programs, beside the prose of `cause` and `reason`.
struct CauseEntry {
  std::string_view code, meaning;
};

/// Cause of a run that finished before its last step.
inline constexpr std::string_view kStoppedEarly = "stopped_early";

/// All codes of the field `cause_code`: docs/metrics.md has this table.
inline constexpr std::array<CauseEntry, 21> kCauses{{
    {kStoppedEarly, "the run finished before its last step, by `train.stop_early_patience` or `train.end_at_step`"},
    {"stop", "the ranks stopped on purpose; the row `stopped` tells why"},
    {"stop_signal", "a signal asked the run to stop: a preemption, `scancel`"},
    {"time_limit", "the end of the job was near"},
    {"user", "a user asked for the end: Ctrl-C, the file STOP, `distdl cancel`"},
    {"signal", "a signal ended a rank"},
    {"exit_code", "a rank ended with an exit code that no other row here means"},
    {"input", "the command, the job, a data set or a checkpoint is wrong, damaged or missing"},
    {"diverged", "the loss became infinite or not a number"},
    {"out_of_memory", "the kernel ended a rank, because its node or job had no memory left"},
    {"frozen", "a rank gave no sign of life"},
    {"no_progress", "a rank stayed in one phase"},
    {"peer_lost", "a rank waited in vain for another one"},
    {"node_lost", "a node does not answer"},
    {"link_lost", "a node is heard by some nodes and not by others"},
    {"job_lost", "the job ended without a word: its first node was lost, or Slurm killed it"},
    {"poison_step", "ranks crashed twice after the same step"},
    {"corruption", "an audit or a restore found wrong bits"},
    {"scheduler", "Slurm or the bootstrap of the ranks failed"},
    {"storage", "the file system refused"},
    {"unknown", "nobody knows, or another start has the run folder"},
}};

/// Returns the cause of an exit code of ranks or launches, 0 .. 255; empty for 0.
std::string_view cause_of_exit(int code);
/// Returns the cause of the reason of a row `stopped`: "signal SIGTERM", "end of the job in 40 s", "the file STOP".
std::string_view cause_of_stop(std::string_view reason);
/// Returns the cause of the kind of a row `failure`, as agents name it: "killed", "node lost"; "unknown" for others.
std::string_view cause_of_kind(std::string_view kind);

}  // namespace distdl::records
