// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server::simulation {

/// A run without faults, of many workers, in a model of time. Each server is the primary of one range, and with
/// partners the partner of another one. Seconds and bytes.
struct TimedRun {
  Rules rules;  ///< as many ranges as servers
  int workers = 1;
  double least_compute = 0.08, most_compute = 0.12;  ///< of a microbatch; what it takes is drawn between them
  double range_bytes = 1e6;                          ///< of the parameters, and of a gradient
  double bandwidth = 1e10;                           ///< of each node's link, in each direction
  double latency = 5e-6;
  double update = 1e-5;     ///< of a range with a gradient
  double message = 2e-6;    ///< of a worker or server, for each message that it gets
  double schedule = 12e-6;  ///< of the scheduler, for each message: more than measured with 1,000 workers
  std::uint64_t seed = 1;
};

struct TimedOutcome {
  double rate = 0;                ///< microbatches in a second, without the first and the last fifth of the run
  std::size_t messages = 0;       ///< all that were sent
  std::size_t leases = 0;         ///< those that brought a worker a microbatch
  std::size_t applied = 0;        ///< updates, of all holders
  std::size_t most_versions = 0;  ///< of a range at once
  double scheduler_seconds = 0;   ///< of a processor, really
  double seconds = 0;             ///< the same of the whole simulation
};

TimedOutcome simulate(const TimedRun& run);

/// What bounds the rate, whatever waits for what: no station does more than one thing at a time, and no worker has more
/// than one microbatch (Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing Surveys
/// 10(3), 1978). Microbatches in a second.
struct Bounds {
  double workers, links, updates, scheduler;
  double least() const;
};
Bounds bounds_of(const TimedRun& run);

}  // namespace distdl::parallel::server::simulation
