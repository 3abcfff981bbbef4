// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/forecast/step_time.hpp>
#include <distdl/forecast/work.hpp>

// Division of a model's layers into stages: the same in a run as in its forecast.
namespace distdl::forecast {
struct Machine;

/// Seconds of a measured backward pass until the gradients of the layers from this one on are final.
double backward_to(const Workload& work, const RankWork& measured, std::size_t layer);

/// Costs of the layers from each of model::first_layers() to the next.
struct StageCosts {
  std::vector<double> seconds = {};  ///< time of a backward pass; empty: counted, see parallel::stages_of()
  std::string source = "counted multiplications and values";
};

/// Returns the costs that were measured for this model on such nodes with these ranks; without measurements none.
StageCosts stage_costs(const train::Recipe& recipe, const Workload& work, const Machine& machine);

struct StageChoice {
  std::vector<model::LayerRange> ranges;  ///< layers of each stage
  std::vector<std::int64_t> layers;       ///< the same layers as in parallel.stage_layers
  std::string source;                     ///< origin of the costs, or that they were chosen by hand
};

/// Chooses the stages of pipelines of so many ranks. `held`: a rank's part of `whole`.
StageChoice choose_stages(const parallel::Options& options, const model::Description& whole,
                          const model::Description& held, int pipeline, const StageCosts& costs);

/// "parallel.stage_layers = [5, 7], by times measured on 2 x ..."; empty: there is one stage.
std::string text_of(const StageChoice& stages);

}  // namespace distdl::forecast
