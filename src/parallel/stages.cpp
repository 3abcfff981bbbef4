// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/pipeline/balance.hpp>
#include <distdl/parallel/stages.hpp>

namespace distdl::parallel {
namespace {
/// Multiplications of one sample's forward pass, about.
double products_of(const kernels::LayerSpec& spec, const model::Wiring::Layer& layer) {
  const auto outputs = static_cast<double>(tensor::element_count(layer.output));
  if (std::holds_alternative<kernels::Attention>(spec)) return 2 * outputs * static_cast<double>(layer.input[1]);
  if (!std::holds_alternative<kernels::Linear>(spec) && !std::holds_alternative<kernels::Conv2d>(spec)) return 0;
  const auto weight = kernels::parameters_of(spec, layer.input).front().shape;
  return outputs * static_cast<double>(tensor::element_count(weight)) / static_cast<double>(weight[0]);
}

double cost_of(const kernels::LayerSpec& spec, const model::Wiring::Layer& layer) {
  constexpr double kMemory = 16;  // a value that is written and read takes as long as so many multiplications
  return products_of(spec, layer) + kMemory * static_cast<double>(tensor::element_count(layer.output));
}
/// Costs of the layers from each possible begin of a stage to the next.
std::vector<double> counted_costs(const model::Description& model, const std::vector<std::size_t>& firsts) {
  const auto wiring = model::wire(model, 1);
  std::vector<double> costs(firsts.size());
  for (std::size_t block = 0; block < costs.size(); ++block) {
    const std::size_t end = block + 1 < firsts.size() ? firsts[block + 1] : model.layers.size();
    for (std::size_t i = firsts[block]; i < end; ++i) costs[block] += cost_of(model.layers[i].spec, wiring.layers[i]);
  }
  return costs;
}
}  // namespace

int most_stages(const model::Description& model) {
  return static_cast<int>(model::first_layers(model).size());
}

std::vector<model::LayerRange> stages_of(const model::Description& model, int stages,
                                         const std::vector<std::int64_t>& stage_layers, std::span<const double> costs) {
  return stages_of(model, model, stages, stage_layers, costs);
}

std::vector<model::LayerRange> stages_of(const model::Description& whole, const model::Description& some, int stages,
                                         const std::vector<std::int64_t>& stage_layers, std::span<const double> costs) {
  const auto begins = model::first_layers(whole);
  require<InternalError>(costs.empty() || costs.size() == begins.size(),
                         "there are costs for {} stages of model \"{}\", which can be divided into {}", costs.size(),
                         whole.name, begins.size());
  const auto counts = costs.empty() ? pipeline::nearest_stages(counted_costs(whole, begins), stages, stage_layers)
                                    : pipeline::nearest_stages(costs, stages, stage_layers);
  auto firsts = model::first_layers(some);
  require(firsts.size() == begins.size(),
          "a stage may begin at {} layers of model \"{}\", but at {} of what a rank has of it: use "
          "parallel.pipeline_ranks = 1, or parallel.tensor_ranks = 1",
          begins.size(), whole.name, firsts.size());
  firsts.push_back(some.layers.size());
  std::vector<model::LayerRange> ranges;
  std::size_t block = 0;
  for (const auto count : counts) {
    const std::size_t end = block + static_cast<std::size_t>(count);
    ranges.push_back({firsts[block], firsts[end]});
    block = end;
  }
  return ranges;
}

std::vector<std::int64_t> stage_layers_of(const model::Description& model,
                                          const std::vector<model::LayerRange>& stages) {
  const auto firsts = model::first_layers(model);
  std::vector<std::int64_t> counts;
  counts.reserve(stages.size());
  for (const auto& [first, end] : stages)
    counts.push_back(std::ranges::lower_bound(firsts, end) - std::ranges::lower_bound(firsts, first));
  return counts;
}

std::vector<model::LayerRange> stages_of_rank(const std::vector<model::LayerRange>& stages, int rank, int ranks) {
  std::vector<model::LayerRange> own;
  for (auto i = static_cast<std::size_t>(rank); i < stages.size(); i += static_cast<std::size_t>(ranks))
    own.push_back(stages[i]);
  return own;
}

void check_stages(const Options& options, const model::Description& model) {
  const auto firsts = model::first_layers(model);
  const auto most = std::ssize(firsts), ranks = options.pipeline_ranks;
  constexpr std::int64_t kSeveral = 2;  // ranks of a pipeline
  const std::int64_t each = stages_per_rank(options, kSeveral);
  require(ranks <= most,
          "parallel.pipeline_ranks is {}, but model \"{}\" can be divided into at most {} stages, {} for each rank of "
          "a pipeline; the nearest possible number is {}{}",
          ranks, model.name, most, each == 1 ? "one" : fmt::format("{}", each), std::max<std::int64_t>(1, most / each),
          options.stage_layers.empty() ? "" : ", with parallel.stage_layers = []");
  const int stages = static_cast<int>(ranks) * stages_per_rank(options, ranks);
  require(stages <= most,
          "parallel.interleave is {} and parallel.pipeline_ranks is {}, which is {} stages, but model \"{}\" can be "
          "divided into at most {}; the nearest possible number is parallel.interleave = {}",
          options.interleave, ranks, stages, model.name, most, most / ranks);
  const auto& layers = options.stage_layers;
  if (layers.empty()) return;
  const auto nearest = pipeline::nearest_stages(counted_costs(model, firsts), stages, layers);
  require(layers == nearest,
          "parallel.stage_layers is [{}], but there are {} stages, and of model \"{}\" each needs at least 1 of the {} "
          "layers at which a stage may begin (from \"{}\" to \"{}\"), all together {}; the nearest possible choice is "
          "[{}]",
          fmt::join(layers, ", "), stages, model.name, most, model.layers[firsts.front()].name,
          model.layers[firsts.back()].name, most, fmt::join(nearest, ", "));
}

}  // namespace distdl::parallel
