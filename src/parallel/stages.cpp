// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <variant>

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
}  // namespace

int most_stages(const model::Description& model) {
  return static_cast<int>(model::first_layers(model).size());
}

std::vector<model::LayerRange> stages_of(const model::Description& model, int stages) {
  const auto wiring = model::wire(model, 1);
  auto firsts = model::first_layers(model);
  firsts.push_back(model.layers.size());
  std::vector<double> costs(firsts.size() - 1);
  for (std::size_t block = 0; block < costs.size(); ++block)
    for (std::size_t i = firsts[block]; i < firsts[block + 1]; ++i)
      costs[block] += cost_of(model.layers[i].spec, wiring.layers[i]);
  std::vector<model::LayerRange> ranges;
  std::size_t block = 0;
  for (const int blocks : pipeline::balance_stages(costs, stages)) {
    const std::size_t end = block + static_cast<std::size_t>(blocks);
    ranges.push_back({firsts[block], firsts[end]});
    block = end;
  }
  return ranges;
}

}  // namespace distdl::parallel
