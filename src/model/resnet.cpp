// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <map>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {
namespace {
using kernels::BatchNorm;
using kernels::Conv2d;
using kernels::GlobalAveragePool;
using kernels::Linear;
using kernels::MaxPool2d;
using kernels::Relu;

struct Depth {
  std::array<int, 4> blocks;  ///< number of blocks in each stage
  std::int64_t expansion;     ///< 4: a block is a bottleneck
};
const std::map<std::string, Depth> kDepths{
    {"resnet18", {{2, 2, 2, 2}, 1}}, {"resnet34", {{3, 4, 6, 3}, 1}}, {"resnet50", {{3, 4, 6, 3}, 4}}};
constexpr std::int64_t kLargestSmallImage = 64;

class ResnetBuilder {
 public:
  explicit ResnetBuilder(Description& model) : layers_(model.layers) {}

  const std::string& last() const { return layers_.back().name; }

  /// Without bias, which batch norm would take away again; He's start: "Delving deep into rectifiers", ICCV 2015.
  void convolution(const std::string& name, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                   const std::string& from = {}, std::optional<Split> split = {}) {
    const auto fan_out = static_cast<float>(out * kernel * kernel);
    layers_.push_back(
        {.name = name,
         .spec = Conv2d{.out = out, .kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false},
         .from = from,
         .start = Start{.deviation = std::sqrt(2 / fan_out)},
         .split = split});
  }
  void norm(const std::string& name, const std::string& plus = {}) {
    layers_.push_back({.name = name, .spec = BatchNorm{}, .plus = plus});
  }
  void relu(const std::string& name) { layers_.push_back({name, Relu{}}); }

  /// The input, fitted to the block's output where it must be; then two or three convolutions to be added to it.
  void block(const std::string& name, std::int64_t width, std::int64_t stride, std::int64_t expansion, bool fit) {
    const std::string input = last();
    const std::string skip = fit ? name + ".downsample.1" : input;
    if (fit) {
      convolution(name + ".downsample.0", width * expansion, 1, stride);
      norm(skip);
    }
    const bool bottleneck = expansion > 1;
    convolution(name + ".conv1", width, bottleneck ? 1 : 3, bottleneck ? 1 : stride, input, Split::outputs);
    norm(name + ".bn1");
    relu(name + ".relu1");
    convolution(name + ".conv2", width, 3, bottleneck ? stride : 1, {}, Split::inputs);
    norm(name + ".bn2", bottleneck ? "" : skip);
    if (bottleneck) {
      relu(name + ".relu2");
      convolution(name + ".conv3", width * expansion, 1, 1);
      norm(name + ".bn3", skip);
    }
    relu(name + ".relu");
  }

 private:
  std::vector<NamedLayer>& layers_;
};

bool small_stem(const Options& options, const tensor::Shape& sample) {
  if (options.stem == Stem::automatic) return sample[1] <= kLargestSmallImage && sample[2] <= kLargestSmallImage;
  return options.stem == Stem::cifar;
}
}  // namespace

Description resnet(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  require_images(options.name, sample);
  const auto depth = kDepths.find(options.name);
  require(depth != kDepths.end(), "model.name is \"{}\", but this depth of resnet is unknown", options.name);
  const auto& [blocks, expansion] = depth->second;
  Description model{options.name, sample, classes, {}};
  ResnetBuilder build(model);
  const bool small = small_stem(options, sample);
  build.convolution("conv1", 64, small ? 3 : 7, small ? 1 : 2);
  build.norm("bn1");
  // Before ReLU: see lenet.cpp.
  if (!small) model.layers.push_back({"maxpool", MaxPool2d{.kernel = 3, .stride = 2, .padding = 1}});
  build.relu("relu");
  std::int64_t channels = 64;
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::int64_t width = std::int64_t{64} << stage, stride = stage > 0 && i == 0 ? 2 : 1;
      build.block("layer" + std::to_string(stage + 1) + "." + std::to_string(i), width, stride, expansion,
                  stride > 1 || channels != width * expansion);
      channels = width * expansion;
    }
  model.layers.push_back({"avgpool", GlobalAveragePool{}});
  model.layers.push_back({"fc", Linear{classes}});
  return model;
}

}  // namespace distdl::model
