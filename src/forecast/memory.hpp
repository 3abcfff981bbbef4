// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <distdl/forecast/work.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::forecast {

/// Bytes of a rank. Memory that the ranks of a node share counts once, with the rank that allocates it.
struct MemoryParts {
  double parameters = 0, moments = 0;  ///< with averages of the parameters
  double gradients = 0;                ///< arenas of partial sums
  double network = 0;                  ///< activations, their gradients, workspaces and repacked weights
  double data = 0;                     ///< batches that are read ahead, chunks of the data set
  double sums = 0;                     ///< scratch memory of collectives
  double snapshots = 0;                ///< buffers of checkpoints, for ranks that write
  double program = 0;                  ///< the program itself: libraries, kernels, threads

  double total() const { return parameters + moments + gradients + network + data + sums + snapshots + program; }
  MemoryParts& operator*=(double factor) {
    for (double* part : {&parameters, &moments, &gradients, &network, &data, &sums, &snapshots, &program})
      *part *= factor;
    return *this;
  }
};

/// A network as model::Network makes it.
struct NetworkFacts {
  double bytes = 0;                 ///< size of its allocations
  std::vector<std::size_t> places;  ///< model::Network::places()
};
/// Use of a rank's network.
struct NetworkUse {
  std::int64_t samples = 1;
  bool recomputes = false;
  bool in_pieces = false;  ///< for parallel.schedule = "zero-bubble"
};
/// Makes the network of some layers without its memory (tensor::DryAllocations). Its layers choose their formats and
/// workspaces as on the nodes, if those have processors of this kind. `kernels`: throws BackendUnavailable if its
/// backend does not run here.
NetworkFacts make_dry_network(const kernels::Options& kernels, const model::Description& model,
                              const model::ModelTensors& tensors, const NetworkUse& use);

/// Makes each network once: stages of equal layers take as much memory.
class DryNetworks {
 public:
  explicit DryNetworks(kernels::Options kernels) : kernels_(std::move(kernels)) {}
  /// `wiring`: wiring of the model, for one sample.
  double bytes(const model::Description& model, const model::Wiring& wiring, const model::ModelTensors& tensors,
               const NetworkUse& use);

 private:
  kernels::Options kernels_;
  std::map<std::string, double> bytes_;
};

/// A rank's part of a model, with the ranks that have the same part.
struct RankPart {
  const tensor::ArenaLayout& layout;
  comm::LeafRange range;            ///< range of its microbatches
  double share = 1;                 ///< fraction of the parameters whose moments it has
  std::size_t waiting_floats = 0;   ///< most floats of gradients that wait for a sum, if it gives these back; else 0
  std::size_t gathered_floats = 0;  ///< most floats of other ranks' parameter blocks, if it has only its share
  int hosts = 1;                    ///< number of these ranks' nodes
  bool writes = true;  ///< it is the first of them on its node, and writes that node's part of a checkpoint
  bool reads = true;   ///< its layers need samples or labels
};
/// Returns the memory that it needs besides its networks, by the formulas of the rooms that allocate it.
MemoryParts state_memory(const train::Recipe& recipe, const Workload& work, const RankPart& part);
/// Returns the bytes of a checkpoint that it writes.
double written_bytes(const train::Recipe& recipe, const RankPart& part);

}  // namespace distdl::forecast
