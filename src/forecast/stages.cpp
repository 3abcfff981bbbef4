// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/ranges.h>

#include <distdl/forecast/forecast.hpp>
#include <distdl/forecast/stages.hpp>
#include <distdl/model/parts.hpp>
#include <distdl/parallel/stages.hpp>

namespace distdl::forecast {

double backward_to(const Workload& work, const RankWork& measured, std::size_t layer) {
  if (layer == work.model.layers.size()) return 0;
  std::size_t place = work.tensors.layout.size();
  for (const auto& tensor : work.tensors.tensors)
    if (!tensor.shared && tensor.layer >= layer) place = std::min(place, tensor.view.offset);
  return layer == 0 ? measured.backward : final_after(measured, place);
}

StageCosts stage_costs(const train::Recipe& recipe, const Workload& work, const Machine& machine) {
  const auto& figures = machine.calibration;
  const bool knows_nodes = figures && machine.not_of_these.empty();
  const auto* const known =
      knows_nodes ? figures->find(identity_of_work(recipe, work), machine.ranks_per_node) : nullptr;
  if (known == nullptr || known->work.finals.empty()) return {};
  StageCosts costs{{}, "times measured on " + to_string(figures->kind)};
  auto firsts = model::first_layers(work.model);
  firsts.push_back(work.model.layers.size());
  for (std::size_t i = 0; i + 1 < firsts.size(); ++i)
    costs.seconds.push_back(
        std::max(0.0, backward_to(work, known->work, firsts[i]) - backward_to(work, known->work, firsts[i + 1])));
  return costs;
}

StageChoice choose_stages(const parallel::Options& options, const model::Description& whole,
                          const model::Description& held, int pipeline, const StageCosts& costs) {
  const int stages = pipeline * parallel::stages_per_rank(options, pipeline);
  StageChoice choice{parallel::stages_of(whole, held, stages, options.stage_layers, costs.seconds), {}, costs.source};
  choice.layers = parallel::stage_layers_of(held, choice.ranges);
  if (choice.layers == options.stage_layers) choice.source = "hand";
  return choice;
}

std::string text_of(const StageChoice& stages) {
  if (stages.layers.size() < 2) return {};
  return fmt::format("parallel.stage_layers = [{}], by {}", fmt::join(stages.layers, ", "), stages.source);
}

}  // namespace distdl::forecast
