// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/audit/auditor.hpp>
#include <distdl/train/saves/run_saves.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Collective. Ends a run in which an audit found wrong bits: distrusts the checkpoints since the last audit and
/// reports the nodes. `nodes`: of each rank; empty: its host name. Throws an Error with ExitCode::corruption on the
/// ranks that are wrong, and a CommError on the others; all throw the first, if nothing tells which node is wrong.
[[noreturn]] void end_corrupted(const AuditFailed& found, const std::vector<std::string>& nodes,
                                const TrainingState& state, comm::Communicator& communicator,
                                Checkpointing& checkpointing, records::Observer& observer);

}  // namespace distdl::train
