// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <cmath>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/model/description.hpp>

namespace distdl::model {
namespace {
using kernels::BatchNorm;
using kernels::Conv2d;
using kernels::Linear;
using kernels::MaxPool2d;
using kernels::Relu;

void append_hidden(Description& model, const Options& options) {
  for (std::size_t i = 0; i < options.hidden.size(); ++i) {
    auto n = std::to_string(i + 1);
    require(options.hidden[i] > 0, "model.hidden[{}] is {}, but a layer needs at least one unit", i, options.hidden[i]);
    model.layers.push_back({"fc" + n, Linear{options.hidden[i]}});
    if (options.batch_norm) model.layers.push_back({"fc" + n + "_norm", BatchNorm{}});
    model.layers.push_back({"fc" + n + "_relu", Relu{}});
  }
  model.layers.push_back({"fc" + std::to_string(options.hidden.size() + 1), Linear{model.classes}});
}

void append_convolution(Description& model, const Options& options, const std::string& name, std::int64_t channels) {
  model.layers.push_back({name, Conv2d{.out = channels, .kernel = 3, .stride = 1, .padding = 1}});
  if (options.batch_norm) model.layers.push_back({name + "_norm", BatchNorm{}});
  // Pooling before ReLU gives the same values and gradients as after it, with a quarter of the work for ReLU.
  model.layers.push_back({name + "_pool", MaxPool2d{2, 2}});
  model.layers.push_back({name + "_relu", Relu{}});
}

void fill_uniform(std::span<float> values, std::uint64_t seed, std::uint64_t stream, float bound) {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    auto block = Philox::block(seed, stream, i / 4);
    for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j)
      values[j] = (2 * Philox::uniform(block[j - i]) - 1) * bound;
  }
}
}  // namespace

Description mlp(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  Description model{"mlp", sample, classes, {}};
  append_hidden(model, options);
  return model;
}

Description lenet(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  Description model{"lenet", sample, classes, {}};
  append_convolution(model, options, "conv1", 32);
  append_convolution(model, options, "conv2", 64);
  append_hidden(model, options);
  return model;
}

Description describe_model(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  require(sample.size() == 3, "model \"{}\" takes images (C, H, W), but the data set has samples of shape {}",
          options.name, tensor::to_string(sample));
  require(classes >= 2, "model \"{}\" needs at least 2 classes, but the data set has {}", options.name, classes);
  if (options.name == "mlp") return mlp(options, sample, classes);
  if (options.name == "lenet") {
    require(sample[1] >= 4 && sample[2] >= 4,
            "model \"lenet\" halves images twice and needs at least 4 x 4 pixels, but the data set has {}",
            tensor::to_string(sample));
    return lenet(options, sample, classes);
  }
  throw ConfigError(fmt::format("model.name is \"{}\"; known models are \"lenet\" and \"mlp\"", options.name));
}

ModelTensors tensors_of(const Description& model) {
  ModelTensors all;
  tensor::Shape shape = model.sample;
  shape.insert(shape.begin(), 1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& layer = model.layers[i];
    for (auto& spec : kernels::parameters_of(layer.spec, shape)) {
      const auto& view = all.layout.add(layer.name + "." + spec.name, spec.shape, spec.role);
      all.tensors.push_back({view, spec, i});
    }
    shape = kernels::output_shape(layer.spec, shape);
  }
  return all;
}

void initialize(const ModelTensors& model, std::uint64_t seed, std::span<float> arena) {
  assert(arena.size() >= model.layout.size());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const auto& [view, spec, layer] = model.tensors[i];
    auto values = arena.subspan(view.offset, view.count);
    switch (spec.init) {
      case kernels::Init::zeros:
        std::fill(values.begin(), values.end(), 0.0f);
        break;
      case kernels::Init::ones:
        std::fill(values.begin(), values.end(), 1.0f);
        break;
      case kernels::Init::fan_in_uniform:
        fill_uniform(values, seed, i, 1.0f / std::sqrt(static_cast<float>(spec.fan_in)));
        break;
    }
  }
}

}  // namespace distdl::model
