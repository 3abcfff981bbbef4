// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/base/ids.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::parallel::server {

using Node = StrongId<struct NodeTag, int>;  ///< a worker, a server or the scheduler
/// Of a run, from 0, over all epochs: what is leased, pushed and counted as one. With `synchronous` it is a part of a
/// step, which may have several microbatches of the trainer: see StepParts.
using Microbatch = StrongId<struct MicrobatchTag, std::int64_t>;
using Version = StrongId<struct VersionTag, std::int64_t>;  ///< of a range's parameters, from 0
using Term = StrongId<struct TermTag, std::int64_t>;        ///< of the holders of a range; increases with each loss
using Leadership = StrongId<struct LeadershipTag, std::int64_t>;  ///< of a scheduler; increases with each new one

/// What all roles of a run agree on.
struct Rules {
  Mode mode = Mode::synchronous;
  std::int64_t staleness = 0;     ///< steps, with `bounded`: what a gradient may lack at most, see is_fresh()
  std::int64_t microbatches = 1;  ///< of a step, which is the clock of the staleness
  std::int64_t steps = 1;         ///< of the run
  int ranges = 1;                 ///< parts of the arenas, each with holders of its own
  int pieces = 1;                 ///< in which a range is read
  int late_ticks = 20;            ///< of the scheduler, after which a lease is also given to another worker
  bool has_partners = true;       ///< each range has a copy on a second server, if there is one

  std::int64_t step_of(Microbatch microbatch) const { return microbatch.value / microbatches; }
  std::int64_t total() const { return steps * microbatches; }
};

/// Throws ConfigError for numbers that make no run.
void check(const Rules& rules);

/// May the gradient of this microbatch be computed with parameters that have all updates of the first `complete` steps?
/// At most `staleness` of the steps before its own may be missing, none with `synchronous`.
bool is_fresh(const Rules& rules, std::int64_t complete, Microbatch microbatch);

}  // namespace distdl::parallel::server
