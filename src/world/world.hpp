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

/// Some ranks did not come to the exchange.
class RanksMissing : public SchedulerError {
 public:
  RanksMissing(std::vector<Rank> ranks, const std::string& message)
      : SchedulerError(message), ranks_(std::move(ranks)) {}
  const std::vector<Rank>& ranks() const noexcept { return ranks_; }

 private:
  std::vector<Rank> ranks_;
};

/// Who am I, who are the others: what a rank learns at birth. Implementations: threads of one process, PMIx under
/// srun, a shared folder. A World only exchanges the addresses of the ranks; from then on they communicate through
/// comm.
class World {
 public:
  virtual ~World() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  /// For logs and errors: "PMIx (Slurm job 17.0)", "4 threads", "folder /x/rendezvous".
  virtual std::string description() const = 0;

  /// Collective, once in the life of a World: gives `mine` to everyone, returns everyone's in rank order, and leaves
  /// the bootstrap service (PMIx is finalized: a process that dies while PMIx-connected takes the whole step with it).
  /// Throws SchedulerError if not all came within `timeout`; RanksMissing where the service can tell which.
  virtual std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) = 0;
};

}  // namespace distdl::world
