// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/model/parts.hpp>

namespace distdl::model {

namespace {
ModelTensors part_of(const ModelTensors& all, const LayerRange& layers) {
  const auto is_here = [&](const ModelTensor& tensor) {
    return tensor.layer >= layers.first && tensor.layer < layers.end;
  };
  const auto owner_of = [&](const ModelTensor& tensor) {
    return std::ranges::find_if(
        all.tensors, [&](const ModelTensor& other) { return !other.shared && other.view.name == tensor.view.name; });
  };
  ModelTensors part;
  part.layers = layers;
  for (const auto& tensor : all.tensors)
    if (is_here(tensor) && !tensor.shared)
      part.layout.add(tensor.view.name, tensor.view.shape, tensor.view.role, tensor.view.part_of);
  for (const ModelTensor& each : all.tensors) {
    if (!is_here(each)) {
      if (!each.shared) continue;
      for (ModelTensor& own : part.tensors)
        if (own.view.name == each.view.name) own.elsewhere = each.layer;
      continue;
    }
    ModelTensor tensor = each;
    if (tensor.shared && !part.layout.find(tensor.view.name)) {
      const auto owner = owner_of(tensor);
      part.layout.add(tensor.view.name, tensor.view.shape, tensor::Role::borrowed, tensor.view.part_of);
      tensor = {{}, owner->spec, tensor.layer, owner->number, false, owner->layer};
      tensor.view.name = owner->view.name;
    }
    tensor.view = *part.layout.find(tensor.view.name);
    part.tensors.push_back(std::move(tensor));
  }
  return part;
}
}  // namespace

ModelTensors tensors_of(const Description& model, const LayerRange& layers) {
  return part_of(tensors_of(model), layers);
}

std::vector<ModelTensors> tensors_of(const Description& model, std::span<const LayerRange> parts) {
  return tensors_of(tensors_of(model), parts);
}

std::vector<ModelTensors> tensors_of(const ModelTensors& whole, std::span<const LayerRange> parts) {
  std::vector<ModelTensors> all;
  for (const LayerRange& layers : parts) all.push_back(part_of(whole, layers));
  tensor::ArenaLayout layout;
  for (const bool borrowed : {false, true})
    for (const ModelTensors& part : all)
      for (const auto& view : part.layout.tensors())
        if ((view.role == tensor::Role::borrowed) == borrowed)
          layout.add(view.name, view.shape, view.role, view.part_of);
  for (ModelTensors& part : all) {
    part.layout = layout;
    part.has_totals = &part == &all.back();
    for (ModelTensor& tensor : part.tensors) tensor.view = *layout.find(tensor.view.name);
  }
  return all;
}

namespace {
bool begins_anew(const kernels::LayerSpec& spec) {
  return std::visit([]<class Spec>(const Spec&) { return !kernels::Elementwise<Spec>; }, spec);
}

/// Whether layers from `first` on read an output from before that is not the last one.
bool reads_farther(const Wiring& wiring, int first) {
  return std::any_of(wiring.layers.begin() + first, wiring.layers.end(), [&](const Wiring::Layer& layer) {
    return layer.from < first - 1 || (layer.plus != Wiring::kNothing && layer.plus < first - 1);
  });
}

/// True if a third layer has the tensor of two others, on both sides: its gradients have one order.
bool divides_sharers(const Description& model, std::size_t first) {
  const auto sharers = [&](std::size_t begin, std::size_t end, const std::string& owner) {
    return std::count_if(model.layers.begin() + static_cast<std::ptrdiff_t>(begin),
                         model.layers.begin() + static_cast<std::ptrdiff_t>(end),
                         [&](const NamedLayer& layer) { return layer.shares == owner; });
  };
  return std::ranges::any_of(model.layers, [&](const NamedLayer& layer) {
    return !layer.shares.empty() && sharers(0, first, layer.shares) > 0 &&
           sharers(first, model.layers.size(), layer.shares) > 0;
  });
}
}  // namespace

std::vector<std::size_t> first_layers(const Description& model) {
  const Wiring wiring = wire(model, 1);
  std::vector<std::size_t> places{0};
  for (std::size_t i = 1; i < model.layers.size(); ++i)
    if (begins_anew(model.layers[i].spec) && !reads_farther(wiring, static_cast<int>(i)) && !divides_sharers(model, i))
      places.push_back(i);
  return places;
}

}  // namespace distdl::model
