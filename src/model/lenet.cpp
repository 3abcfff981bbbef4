// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

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
}  // namespace

Description mlp(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  if (sample.size() != 4) require_images("mlp", sample);  // with a fourth index, fields of three dimensions
  Description model{"mlp", sample, classes, {}};
  append_hidden(model, options);
  return model;
}

Description lenet(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  require_images("lenet", sample);
  require(sample[1] >= 4 && sample[2] >= 4,
          "model \"lenet\" halves images twice and needs at least 4 x 4 pixels, but the data set has {}",
          tensor::to_string(sample));
  Description model{"lenet", sample, classes, {}};
  append_convolution(model, options, "conv1", 32);
  append_convolution(model, options, "conv2", 64);
  append_hidden(model, options);
  return model;
}

}  // namespace distdl::model
