// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::agent {

struct Options {
  std::int64_t relaunches = 3;  ///< in a row that bring the run no further before giving up
  bool requeue = true;          ///< under Slurm, requeue the job when it stops with work left
  double grace_seconds = 5;     ///< after the first rank ended in failure, the others have so long to end
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("run.relaunches", options.relaunches,
        "how often lost ranks lead to a relaunch before the run gives up; a new checkpoint, or a start from a newer "
        "snapshot than any before, begins the count afresh");
  visit("run.requeue", options.requeue, "under Slurm: requeue the job when it must stop with work left");
  visit("run.grace_seconds", options.grace_seconds,
        "after the first rank ended in failure, the others have so many seconds to end by themselves");
}

}  // namespace distdl::agent
