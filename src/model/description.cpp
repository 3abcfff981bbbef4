// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/model/description.hpp>

namespace distdl::model {
namespace {
void fill_uniform(std::span<float> values, std::uint64_t seed, std::uint64_t stream, float bound) {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    auto block = Philox::block(seed, stream, i / 4);
    for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j)
      values[j] = (2 * Philox::uniform(block[j - i]) - 1) * bound;
  }
}

/// Fills values by the method of Box and Muller.
void fill_normal(std::span<float> values, std::uint64_t seed, std::uint64_t stream, float deviation) {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto block = Philox::block(seed, stream, i / 4);
    for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j) {
      const std::size_t pair = (j - i) / 2 * 2;
      const double radius = std::sqrt(-2 * std::log(1 - double{Philox::uniform(block[pair])}));
      const double angle = 2 * std::numbers::pi * Philox::uniform(block[pair + 1]);
      values[j] = static_cast<float>(deviation * radius * ((j - i) % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
  }
}

void fill(std::span<float> values, const kernels::ParameterSpec& spec, std::uint64_t seed, std::uint64_t stream) {
  switch (spec.init) {
    case kernels::Init::zeros:
      std::fill(values.begin(), values.end(), 0.0f);
      break;
    case kernels::Init::ones:
      std::fill(values.begin(), values.end(), 1.0f);
      break;
    case kernels::Init::normal:
      fill_normal(values, seed, stream, spec.deviation);
      break;
    case kernels::Init::fan_in_uniform:
      fill_uniform(values, seed, stream, 1.0f / std::sqrt(static_cast<float>(spec.fan_in)));
      break;
  }
}

/// Returns `end`: the layers [first, end) are the shards of one layer, or a single layer.
std::size_t end_of_shards(const std::vector<NamedLayer>& layers, std::size_t first) {
  std::size_t end = first + 1;
  while (layers[first].shard && end < layers.size() && layers[end].shard &&
         layers[end].shard->of == layers[first].shard->of)
    ++end;
  return end;
}

/// True if the layer before in the list is another shard of the same layer.
bool follows_shard(const std::vector<NamedLayer>& layers, std::size_t i) {
  return i > 0 && end_of_shards(layers, i - 1) > i;
}

std::optional<tensor::PartOf> part_of(const NamedLayer& layer, const kernels::ParameterSpec& spec) {
  if (!layer.shard) return std::nullopt;
  const std::size_t divided = layer.shard->split == Split::inputs ? 1 : 0;
  tensor::PartOf part{layer.shard->of + "." + spec.name, spec.shape, {}};
  if (divided >= spec.shape.size()) {
    part.boxes.push_back(tensor::whole(spec.shape));
    return part;
  }
  part.shape[divided] = layer.shard->extent;
  for (const auto& [first, count] : layer.shard->ranges) {
    part.boxes.push_back(tensor::whole(spec.shape));
    part.boxes.back().offset[divided] = first;
    part.boxes.back().extent[divided] = count;
  }
  return part;
}

/// Returns the tensors of a layer, with the initial values of the description.
std::vector<kernels::ParameterSpec> parameters_of(const NamedLayer& layer, const tensor::Shape& input) {
  auto specs = kernels::parameters_of(layer.spec, input);
  for (auto& spec : specs) {
    if (layer.start && spec.name == "weight")
      std::tie(spec.init, spec.deviation) = std::pair(layer.start->init, layer.start->deviation);
    if (layer.start && spec.name == "bias") spec.init = kernels::Init::zeros;
    if (layer.shard && layer.shard->split == Split::inputs)
      spec.fan_in = spec.fan_in / layer.shard->ranges.front().count * layer.shard->extent;
  }
  return specs;
}
}  // namespace

Wiring wire(const Description& model, std::int64_t samples) {
  Wiring wiring;
  std::map<std::string, int> places;
  tensor::Shape sample = model.sample;
  sample.insert(sample.begin(), samples);
  const auto place_of = [&](const NamedLayer& layer, const std::string& name) {
    const auto found = places.find(name);
    require(found != places.end(),
            "layer \"{}\" of model \"{}\" takes the output of \"{}\", which must be an earlier layer", layer.name,
            model.name, name);
    return found->second;
  };
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const NamedLayer& layer = model.layers[i];
    Wiring::Layer wired;
    if (!layer.from.empty())
      wired.from = place_of(layer, layer.from);
    else
      wired.from = follows_shard(model.layers, i) ? wiring.layers[i - 1].from : static_cast<int>(i) - 1;
    wired.input = wired.from == Wiring::kSample ? sample : wiring.layers[wired.from].output;
    wired.output = kernels::output_shape(layer.spec, wired.input);
    const bool is_summed_later = layer.shard && i + 1 < end_of_shards(model.layers, i);
    if (!layer.plus.empty() && !is_summed_later) {
      wired.plus = place_of(layer, layer.plus);
      const auto& other = wiring.layers[wired.plus].output;
      require(other == wired.output,
              "layer \"{}\" of model \"{}\" has the output {} and adds \"{}\", whose output is {}", layer.name,
              model.name, tensor::to_string(wired.output), layer.plus, tensor::to_string(other));
      require(
          !std::holds_alternative<kernels::Relu>(layer.spec) && !std::holds_alternative<kernels::MaxPool2d>(layer.spec),
          "layer \"{}\" of model \"{}\" cannot add another output: its gradient is computed from its own output",
          layer.name, model.name);
    }
    wiring.layers.push_back(std::move(wired));
    require(places.emplace(layer.name, static_cast<int>(i)).second, "model \"{}\" has two layers \"{}\"", model.name,
            layer.name);
    if (layer.shard) places[layer.shard->of] = static_cast<int>(i);
  }
  for (std::size_t first = 0, end = 0; first < model.layers.size(); first = end) {
    end = end_of_shards(model.layers, first);
    const auto& shard = model.layers[first].shard;
    if (!shard || shard->split == Split::values) continue;
    auto& shards = wiring.layers[sums_outputs(shard->split) ? end - 1 : first].shards;
    for (std::size_t i = first; i < end; ++i) shards.push_back(static_cast<int>(i));
  }
  return wiring;
}

namespace {
/// Returns the tensor of an earlier layer whose weight `layer` takes.
const ModelTensor& shared_by(const Description& model, const NamedLayer& layer, const kernels::ParameterSpec& spec,
                             const ModelTensors& before) {
  const std::string name = layer.shares + ".weight";
  const auto found = std::ranges::find_if(
      before.tensors, [&](const ModelTensor& other) { return !other.shared && other.view.name == name; });
  require(found != before.tensors.end() && found->view.shape == spec.shape,
          "layer \"{}\" of model \"{}\" shares the weight {} of \"{}\", which must be an earlier layer with a "
          "weight of this shape",
          layer.name, model.name, tensor::to_string(spec.shape), layer.shares);
  return *found;
}
}  // namespace

ModelTensors tensors_of(const Description& model) {
  ModelTensors all;
  all.layers = {0, model.layers.size()};
  const Wiring wiring = wire(model, 1);
  std::size_t number = 0;
  const auto add = [&](std::size_t i, const kernels::ParameterSpec& spec) {
    const NamedLayer& layer = model.layers[i];
    if (spec.name == "weight" && !layer.shares.empty()) {
      all.tensors.push_back({shared_by(model, layer, spec, all).view, spec, i, number, true});
    } else {
      const auto& view = all.layout.add(layer.name + "." + spec.name, spec.shape, spec.role, part_of(layer, spec));
      all.tensors.push_back({view, spec, i, number});
    }
  };
  for (std::size_t first = 0, end = 0; first < model.layers.size(); first = end) {
    end = end_of_shards(model.layers, first);
    std::vector<std::vector<kernels::ParameterSpec>> specs;
    for (std::size_t i = first; i < end; ++i) specs.push_back(parameters_of(model.layers[i], wiring.layers[i].input));
    const auto& shard = model.layers[first].shard;
    const std::size_t count = shard ? shard->tensors : specs[0].size();
    for (std::size_t k = 0; k < count; ++k, ++number)
      for (std::size_t i = first; i < end; ++i)
        if (k < specs[i - first].size()) add(i, specs[i - first][k]);
  }
  return all;
}

std::size_t parameter_count(const ModelTensors& tensors) {
  std::size_t count = 0;
  for (const auto& tensor : tensors.tensors)
    if (tensor.view.role == tensor::Role::parameter && !tensor.shared) count += tensor.view.count;
  return count;
}

void initialize(const ModelTensors& model, std::uint64_t seed, std::span<float> arena,
                const std::function<void()>& written) {
  assert(arena.size() >= model.layout.size());
  std::vector<float> whole;
  std::optional<std::size_t> held;  // the tensor that is in `whole`
  for (const auto& [view, spec, layer, number, shared, elsewhere] : model.tensors) {
    if (written) written();
    if (shared) continue;
    const auto values = arena.subspan(view.offset, view.count);
    if (!view.part_of) {
      fill(values, spec, seed, number);
      continue;
    }
    if (std::exchange(held, number) != number) {
      whole.resize(static_cast<std::size_t>(tensor::element_count(view.whole_shape())));
      fill(whole, spec, seed, number);
    }
    tensor::copy_part(view, whole, values);
  }
  if (written) written();
}

}  // namespace distdl::model
