// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::world {

/// Some ranks did not take part in the exchange.
class RanksMissing : public SchedulerError {
 public:
  RanksMissing(std::vector<Rank> ranks, const std::string& message)
      : SchedulerError(message), ranks_(std::move(ranks)) {}
  const std::vector<Rank>& ranks() const noexcept { return ranks_; }

 private:
  std::vector<Rank> ranks_;
};

/// Rank, size and rendezvous of the ranks of a launch. Implementations: threads of one process, PMIx under srun, a
/// shared folder. A World only exchanges the addresses of the ranks; from then on they communicate through comm.
class World {
 public:
  virtual ~World() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  /// A description for logs and errors, such as "PMIx (Slurm job 17.0)", "4 threads" or "folder /x/rendezvous".
  virtual std::string description() const = 0;

  /// Collective, once per World. Sends `mine` to all ranks and returns all ranks' strings in rank order. It then leaves
  /// the bootstrap service: PMIx is finalized, because Slurm ends the whole step if a PMIx-connected process dies.
  /// Throws SchedulerError if ranks are missing after `timeout`; it is RanksMissing if the service can name them.
  virtual std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) = 0;
};

}  // namespace distdl::world
