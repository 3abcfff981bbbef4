// SPDX-License-Identifier: Apache-2.0
// A model of one's own in one file. The program is distdl itself, with one more name for model.name: everything works
// with it, on one machine as under Slurm.
//   own_model run --local -n 2 job.toml --set model.name=separable
//   DISTDL=own_model sbatch train.sbatch job.toml --set model.name=separable
#include <string>

#include <distdl/app/program.hpp>
#include <distdl/model/models.hpp>

using namespace distdl;
using namespace distdl::kernels;

/// A residual network of depthwise separable convolutions (Chollet, "Xception", CVPR 2017): each block filters every
/// channel by itself, mixes the channels of each pixel, and adds what came in.
model::Description separable(const model::Options& options, const tensor::Shape& sample, std::int64_t classes) {
  model::require_images(options.name, sample);
  constexpr std::int64_t kChannels = 32;
  model::Description net{options.name, sample, classes, {}};
  net.layers = {
      {"stem", Conv2d{.out = kChannels, .kernel = 3, .stride = 2, .padding = 1, .bias = false}},
      {"stem_norm", BatchNorm{}},
      {"block0", Relu{}},
  };
  for (int i = 1; i <= 2; ++i) {
    const std::string name = "block" + std::to_string(i), input = "block" + std::to_string(i - 1);
    net.layers.push_back(
        {name + "_filter", Conv2d{.out = kChannels, .padding = 1, .bias = false, .groups = kChannels}});
    net.layers.push_back({name + "_mix", Conv2d{.out = kChannels, .kernel = 1, .bias = false}});
    net.layers.push_back({.name = name + "_norm", .spec = BatchNorm{}, .plus = input});
    net.layers.push_back({name, Relu{}});
  }
  net.layers.push_back({"mean", GlobalAveragePool{}});
  net.layers.push_back({"logits", Linear{classes}});
  return net;
}

int main(int argc, char** argv) {
  model::add_model("separable", separable);
  return app::program(argc, argv);
}
