// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <distdl/model/description.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::train {

/// The memory of this machine including swap space, or the limit of the process's control group if that is less.
std::uint64_t memory_of_node();

/// Bytes of memory that one process may still allocate within its own limits.
struct ProcessLimits {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t addresses = kNone;  ///< RLIMIT_AS ("ulimit -v"): all memory, also memory that ranks of the node share
  std::uint64_t data = kNone;       ///< RLIMIT_DATA ("ulimit -d"): memory that is not shared
};
/// The limits of this process.
ProcessLimits limits_of_process();

/// The ranks of a run on one machine.
struct RanksOfMachine {
  int here = 1;
  parallel::Degrees degrees;  ///< degrees of the run, also on other machines
  bool logs = true;           ///< this rank logs for those of its machine
  int devices = 1;            ///< devices of each rank
};

/// Properties that determine the least memory of a rank, besides activations. `tensors`: tensors of the rank.
struct RankMemory {
  const model::ModelTensors& tensors;
  const parallel::Options& parallel;
  const optim::Options& optim;
  const RanksOfMachine& ranks;
};
/// Arenas of the training state of a rank, besides one of the parameters and those of gradients. The refusal of a run
/// and the forecast count them alike.
struct StateArenas {
  std::int64_t moments = 0, averages = 0;  ///< numbers of arenas
  bool shards_moments = false;             ///< the rank has a shard of each moment only
  bool shards_values = false;              ///< it has a shard of the parameters and of each average only
  /// Number of arenas of which the rank has a shard only.
  std::int64_t shards() const { return (shards_moments ? moments : 0) + (shards_values ? 1 + averages : 0); }
};
/// `shares`: other ranks have the other shards.
StateArenas state_arenas(parallel::Strategy strategy, const optim::Options& optim, bool shares);

/// The least bytes of a rank's arenas: parameters, gradients, optimizer state.
struct ArenaBytes {
  std::int64_t all = 0;     ///< on all its devices
  std::int64_t shared = 0;  ///< the part of `all` that is in memory shared by the ranks of a node
};
/// The bytes of one arena. Throws ConfigError if that is no number.
std::int64_t bytes_of_arena(const model::ModelTensors& tensors);
/// `bytes`, with so many arenas more on the devices besides the first one. Throws ConfigError if that is no number.
std::int64_t with_devices(std::int64_t bytes, std::int64_t arena, std::int64_t more_arenas);

/// Throws ConfigError before anything is allocated if parameters, gradients, moments and the largest activation of the
/// ranks of one machine need more than `memory` bytes, or those of a rank more than a process may have. `tensors`:
/// tensors of a rank.
void check_memory(const model::Description& model, const model::ModelTensors& tensors,
                  const parallel::Options& parallel, const optim::Options& optim, const RanksOfMachine& ranks,
                  std::uint64_t memory, const ProcessLimits& limits = {});

/// The tensors of a model of which each rank has all. Throws as check_memory() does.
model::ModelTensors tensors_that_fit(const model::Description& model, const parallel::Options& parallel,
                                     const optim::Options& optim, const RanksOfMachine& ranks, std::uint64_t memory);

/// Whether these ranks keep activations or recompute them, by parallel.recompute. "auto" recomputes, with a line in the
/// log, if they do not fit into `memory`, but never where ranks hold the model together. `model`: all layers. `type`:
/// data type of the activations.
model::Network::Activations activations_for(const model::Description& model, const parallel::Options& parallel,
                                            const optim::Options& optim, tensor::DataType type,
                                            const RanksOfMachine& ranks, std::uint64_t memory);

}  // namespace distdl::train
