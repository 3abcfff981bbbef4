// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <distdl/model/parts.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::parallel {

/// Returns the most stages that a model can be divided into, see model::first_layers().
int most_stages(const model::Description& model);

/// Returns the layers of each of so many stages. `stage_layers`: for each stage, how many of model::first_layers() it
/// has. Where they do not fit, the nearest ones, see pipeline::nearest_stages(). `costs`: cost of the layers from each
/// of model::first_layers() to the next, at least 0, in any unit; none: counted multiplications and values. Throws
/// ConfigError if the model cannot have so many stages, and InternalError for another number of costs.
std::vector<model::LayerRange> stages_of(const model::Description& model, int stages,
                                         const std::vector<std::int64_t>& stage_layers = {},
                                         std::span<const double> costs = {});

/// Returns the layers of each stage of a model that has some branches of `whole` only, see model::branches_of(). All
/// ranks of a tensor group have the same stages, whatever the branches of each cost. `costs`: costs of `whole`.
std::vector<model::LayerRange> stages_of(const model::Description& whole, const model::Description& some, int stages,
                                         const std::vector<std::int64_t>& stage_layers,
                                         std::span<const double> costs = {});

/// The number of model::first_layers() that each of these stages has.
std::vector<std::int64_t> stage_layers_of(const model::Description& model,
                                          const std::vector<model::LayerRange>& stages);

/// Returns the stages of a rank of a pipeline of so many ranks: the stages lie on the ranks in turn.
std::vector<model::LayerRange> stages_of_rank(const std::vector<model::LayerRange>& stages, int rank, int ranks);

/// Throws ConfigError, which names the nearest choice that is possible, unless the options' stages are those of this
/// model.
void check_stages(const Options& options, const model::Description& model);

}  // namespace distdl::parallel
