// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/model/description.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::train {

/// The memory of this machine including swap space, or the limit of the process's control group if that is less.
std::uint64_t memory_of_node();

/// How many ranks of a run one machine has.
struct RanksOfMachine {
  int here = 1;
  int all = 1;       ///< of the run, also on other machines
  bool logs = true;  ///< this rank logs for those of its machine
};

/// The tensors of a model that ranks of one machine train in its own memory. Throws ConfigError before anything is
/// allocated if parameters, gradients, moments and the largest activation need more than `memory` bytes.
model::ModelTensors tensors_that_fit(const model::Description& model, const parallel::Options& parallel,
                                     const optim::Options& optim, const RanksOfMachine& ranks, std::uint64_t memory);

/// What parallel.recompute means for these ranks: "auto" is logged if the activations are recomputed. `type`: of the
/// activations.
model::Network::Activations activations_for(const model::Description& model, const parallel::Options& parallel,
                                            const optim::Options& optim, tensor::DataType type,
                                            const RanksOfMachine& ranks, std::uint64_t memory);

}  // namespace distdl::train
