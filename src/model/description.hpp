// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <distdl/kernels/layer_spec.hpp>
#include <distdl/model/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::model {

struct NamedLayer {
  std::string name;  ///< "conv1"; its tensors are "conv1.weight", "conv1.bias"
  kernels::LayerSpec spec;
};

/// A classifier as a list of layers, read top to bottom; the last one gives the logits.
struct Description {
  std::string name;
  tensor::Shape sample;  ///< (C, H, W)
  std::int64_t classes = 0;
  std::vector<NamedLayer> layers;
};

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
