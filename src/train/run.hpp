// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/communicator.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/host.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/setting.hpp>

namespace distdl::train {

enum class Outcome {
  finished,  ///< all steps are done, or it ended early, and the final checkpoint is written
  stopped,   ///< saved; the next start continues
};

/// Collective over the communicator's ranks. Resumes from the newest snapshot or valid checkpoint, or starts a new run.
/// Trains to the end, or until any rank is asked to stop. Failed saves are logged and reported to the observer, and the
/// run continues; only the last save must succeed. The result depends only on the recipe, not on the number of ranks or
/// interruptions. Throws Error on all ranks, with the code of the cause: bad input, a missing data set or checkpoint,
/// another run that took the checkpoint folder; comm::PeerLost. If an audit finds wrong bits, the ranks that are wrong
/// throw an Error with ExitCode::corruption, and the others a CommError; all throw the first, if nothing tells which
/// node is wrong.
Outcome run(const Recipe& recipe, const Setting& setting, Host& host, comm::Communicator& communicator,
            records::Observer& observer);

}  // namespace distdl::train
