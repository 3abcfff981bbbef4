// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/exit_codes.hpp>

namespace distdl {

/// Facts about a run besides the exit code of its ranks. Each changes the decision about some codes; by default none
/// holds. A caller states what it knows, and the rule is in decide_restart() alone.
struct RestartEvidence {
  /// The run has trained before, so it has had all files that it needs: a full disk or a missing file may pass.
  bool has_trained = false;
  /// A later job of a chain would restart the run: a full disk or a missing file may pass until then.
  bool by_later_job = false;
  /// The ranks were asked to stop while they ran.
  bool told_to_stop = false;
  /// Another start has the run folder, or a user has stopped the run for good.
  bool was_taken_away = false;
  /// Nodes have joined the run, and its ranks have not made a step with them yet.
  bool has_newcomers = false;
  /// The code is that of srun or of a program that srun has started; srun's own codes are in no table.
  bool may_be_of_srun = false;
  /// As many tries in a row as are allowed have made no progress.
  bool is_stuck = false;
};

/// The only rule about restarts: what follows if ranks, a launch or a job of a run have ended with `code`. In this
/// order: success is final; a run that was taken away ends; so does one with a code that a restart cannot help; a stop
/// is resumed later; a run that is stuck ends; others are relaunched.
RestartDecision decide_restart(int code, const RestartEvidence& evidence = {});

/// True if `code` stands for a full disk or a missing file, and `evidence` says that this may pass.
bool may_pass(int code, const RestartEvidence& evidence);

/// True if the nodes that have joined are to blame for `code`: a relaunch helps, but only without them.
bool blames_newcomers(int code, const RestartEvidence& evidence);

/// True if a launch that ended with `code` did what it was asked to: it has finished, or it has stopped.
bool is_planned_end(int code);

}  // namespace distdl
