// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/base/ids.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::parallel::server {

using Node = StrongId<struct NodeTag, int>;  ///< a worker, a server or the scheduler
/// Number of a microbatch in a run, from 0, over all epochs: it is leased, pushed and counted as one. With
/// `synchronous` it is a part of a step, which may have several microbatches of the trainer: see StepParts.
using Microbatch = StrongId<struct MicrobatchTag, std::int64_t>;
using Version = StrongId<struct VersionTag, std::int64_t>;  ///< version of a range's parameters, from 0
using Term = StrongId<struct TermTag, std::int64_t>;  ///< term of the holders of a range; increases with each loss
using Leadership = StrongId<struct LeadershipTag, std::int64_t>;  ///< number of a scheduler; newer is greater

/// Values on which all roles of a run agree.
struct Rules {
  Mode mode = Mode::synchronous;
  std::int64_t staleness = 0;     ///< with `bounded`: most steps that a gradient may lack, see is_fresh()
  std::int64_t microbatches = 1;  ///< microbatches per step, which is the clock of the staleness
  std::int64_t steps = 1;         ///< steps of the run
  int ranges = 1;                 ///< parts of the arenas, each with holders of its own
  int pieces = 1;                 ///< parts in which a range is read
  int late_ticks = 20;            ///< ticks of the scheduler after which a lease is also given to another worker
  bool has_partners = true;       ///< each range has a copy on a second server, if there is one

  std::int64_t step_of(Microbatch microbatch) const { return microbatch.value / microbatches; }
  std::int64_t total() const { return steps * microbatches; }
};

/// Throws ConfigError for numbers that make no run.
void check(const Rules& rules);

/// True if the gradient of this microbatch may be computed with parameters that have all updates of the first
/// `complete` steps. At most `staleness` of the steps before its own may be missing, none with `synchronous`.
bool is_fresh(const Rules& rules, std::int64_t complete, Microbatch microbatch);

}  // namespace distdl::parallel::server
