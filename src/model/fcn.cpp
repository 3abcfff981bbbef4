// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {

Description fcn(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  using kernels::BatchNorm;
  using kernels::Conv2d;
  using kernels::Relu;
  require_images("fcn", sample);
  const std::int64_t places = sample[1] * sample[2];
  require(classes % places == 0,
          "model \"fcn\" predicts fields of the extents {} x {} of its samples, but the data set has {} numbers to "
          "predict, or classes; models for these: docs/models.md",
          sample[1], sample[2], classes);
  Description model{"fcn", sample, classes, {}};
  for (std::size_t i = 0; i < options.hidden.size(); ++i) {
    const auto name = "conv" + std::to_string(i + 1);
    require(options.hidden[i] > 0, "model.hidden[{}] is {}, but a layer needs at least one channel", i,
            options.hidden[i]);
    model.layers.push_back({name, Conv2d{.out = options.hidden[i], .kernel = 3, .stride = 1, .padding = 1}});
    if (options.batch_norm) model.layers.push_back({name + "_norm", BatchNorm{}});
    model.layers.push_back({name + "_relu", Relu{}});
  }
  model.layers.push_back({"conv" + std::to_string(options.hidden.size() + 1),
                          Conv2d{.out = classes / places, .kernel = 3, .stride = 1, .padding = 1}});
  return model;
}

}  // namespace distdl::model
