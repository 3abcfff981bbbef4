// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/kernels/layer_spec.hpp>
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

/// A model as a list of layers, read top to bottom; the last one gives the logits or what else the loss takes.
struct Description {
  std::string name;
  tensor::Shape sample;      ///< (C, H, W) of images, (T) of numbers
  std::int64_t classes = 0;  ///< or entries of the vocabulary
  std::vector<NamedLayer> layers;
  kernels::LossSpec loss{};
};

/// The inputs of each layer: numbers of layers, or kSample for the sample itself.
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
/// Numbers that training learns; shared ones count once.
std::size_t parameter_count(const ModelTensors& tensors);

/// Start values: a pure function of (seed, place in the model), the same on every rank, backend and machine.
void initialize(const ModelTensors& model, std::uint64_t seed, std::span<float> arena);

}  // namespace distdl::model
