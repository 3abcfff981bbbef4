// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/kernels/layer_spec.hpp>
#include <distdl/model/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::model {

/// How a layer's weight starts, where PyTorch's default is not what the model is known for; its bias then starts at 0.
struct Start {
  kernels::Init init = kernels::Init::normal;
  float deviation = 0.02f;
};

struct NamedLayer {
  std::string name;  ///< "conv1"; its tensors are "conv1.weight", "conv1.bias"
  kernels::LayerSpec spec;
  std::string from{};    ///< the layer whose output it takes; empty: the one before it in the list
  std::string plus{};    ///< the layer whose output is added to its own, as in residual networks; empty: none
  std::string shares{};  ///< the layer whose "weight" it takes for its own, of the same shape; empty: none
  std::optional<Start> start{};
};

/// A model as a list of layers, read top to bottom; the last one gives the logits.
struct Description {
  std::string name;
  tensor::Shape sample;      ///< (C, H, W) of images, (T) of numbers
  std::int64_t classes = 0;  ///< or entries of the vocabulary
  std::vector<NamedLayer> layers;
};

/// Where the layers of a model take what they take: numbers of layers, kSample for the sample itself.
struct Wiring {
  static constexpr int kSample = -1, kNothing = -2;
  struct Layer {
    int from = kSample;
    int plus = kNothing;
    tensor::Shape input, output;
  };
  std::vector<Layer> layers;
};
/// For microbatches of so many samples. Throws ConfigError naming the layer that does not fit, or that names one which
/// does not come before it.
Wiring wire(const Description& model, std::int64_t samples);

/// The model that Options name, for samples of this shape. Throws ConfigError for an unknown name or a sample too
/// small.
Description describe_model(const Options& options, const tensor::Shape& sample, std::int64_t classes);

/// Fully connected: hidden layers with ReLU, then the logits.
Description mlp(const Options& options, const tensor::Shape& sample, std::int64_t classes);
/// conv 32, pool, conv 64, pool, hidden linear layers, logits; 3 x 3 convolutions that keep the size.
Description lenet(const Options& options, const tensor::Shape& sample, std::int64_t classes);

/// One tensor of the model: where it lies in the arenas, and how it starts.
struct ModelTensor {
  tensor::TensorView view;
  kernels::ParameterSpec spec;
  std::size_t layer = 0;  ///< index in Description::layers
  bool shared = false;    ///< with an earlier layer, of which it is the tensor
};

/// All tensors of a model, in the order of its layers, in one arena.
struct ModelTensors {
  tensor::ArenaLayout layout;
  std::vector<ModelTensor> tensors;
};
ModelTensors tensors_of(const Description& model);

/// Start values: a pure function of (seed, place in the model), the same on every rank, backend and machine.
void initialize(const ModelTensors& model, std::uint64_t seed, std::span<float> arena);

}  // namespace distdl::model
