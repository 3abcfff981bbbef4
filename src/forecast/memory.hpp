// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/forecast/work.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/parallel/plan.hpp>

namespace distdl::forecast {

/// Bytes of a rank. Memory that the ranks of a node share counts once, with the rank that allocates it.
struct MemoryParts {
  double parameters = 0, moments = 0;  ///< with averages of the parameters
  double gradients = 0;                ///< arenas of partial sums
  double network = 0;                  ///< activations, their gradients, workspaces and repacked weights
  double data = 0;                     ///< batches that are read ahead, chunks of the data set
  double sums = 0;                     ///< scratch memory of collectives
  double snapshots = 0;                ///< buffers of checkpoints; of the ranks that write
  double program = 0;                  ///< the program itself: libraries, kernels, threads

  double total() const { return parameters + moments + gradients + network + data + sums + snapshots + program; }
};

/// A network as model::Network makes it.
struct NetworkFacts {
  double bytes = 0;                 ///< that it allocates
  std::vector<std::size_t> places;  ///< model::Network::places()
};
/// Makes the network for microbatches of `samples` without its memory (tensor::DryAllocations): its layers choose their
/// formats and workspaces as they will on the nodes, if those have processors of this kind. `kernels`: throws
/// BackendUnavailable if its backend does not run here.
NetworkFacts make_dry_network(const kernels::Options& kernels, const Workload& work, std::int64_t samples);

/// What a rank holds besides its network, by the formulas of the rooms that allocate it. `writes`: it is the first of
/// its node, and writes that node's part of a checkpoint.
MemoryParts state_memory(const train::Recipe& recipe, const Workload& work, const parallel::MicrobatchPlan& plan,
                         int nodes, Rank rank, bool writes);

}  // namespace distdl::forecast
