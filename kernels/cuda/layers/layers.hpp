// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/tensor/half.hpp>

// One file per layer, or per kind of layers. All layers work on the device's one stream and return before the work is
// done. A layer allocates at its creation what a step needs besides its arguments. Activations have the type of the
// input; those of images may have their channels last, see image_layout.hpp.
namespace distdl::kernels::cuda {

/// Shared by the backend, its layers and its losses, which may be destroyed in any order.
using SharedDevice = std::shared_ptr<Device>;

/// Makes Made<T> for the type of activations, as a layer or a loss.
template <template <class> class Made, class Base = Layer, class... Arguments>
std::unique_ptr<Base> make_of_type(tensor::DataType type, const Arguments&... arguments) {
  return tensor::with_type(type, [&](auto example) -> std::unique_ptr<Base> {
    return std::make_unique<Made<decltype(example)>>(arguments...);
  });
}

std::unique_ptr<Layer> make_layer(SharedDevice device, const Linear& spec, const ActivationFormat& input);
/// If the input has 16 bits, the channels of input and output are last.
std::unique_ptr<Layer> make_layer(SharedDevice device, const Conv2d& spec, const ActivationFormat& input);
/// For an input of 16 bits whose channels are last. Returns nullptr if cuDNN has no plan, or no memory for it.
std::unique_ptr<Layer> make_short_conv2d(SharedDevice device, const Conv2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const MaxPool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const AveragePool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const GlobalAveragePool& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const Relu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const Gelu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const Silu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const GatedSilu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const BatchNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const LayerNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const RmsNorm& spec, const ActivationFormat& input);
/// Uses the key in Device::rng_key().
std::unique_ptr<Layer> make_layer(SharedDevice device, const Dropout& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const Embedding& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const PositionEmbedding& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const ClassToken& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const PixelsToSequence& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const SelectPlace& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const JoinContext& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(SharedDevice device, const Attention& spec, const ActivationFormat& input);
/// cuDNN's attention for 16 bits. Returns nullptr if cuDNN has no plan.
std::unique_ptr<Layer> make_dnn_attention(SharedDevice device, const Attention& spec, const ActivationFormat& input);
/// Attention for 16 bits and heads whose width is a multiple of 8, up to 128.
std::unique_ptr<Layer> make_flash_attention(SharedDevice device, const Attention& spec, const ActivationFormat& input);

// CudaBackend has checked specs and shapes, because nvcc cannot compile fmt 9.
std::unique_ptr<Loss> make_cross_entropy(SharedDevice device, const CrossEntropy& spec, const ActivationFormat& logits);
std::unique_ptr<SlicedLoss> make_sliced_entropy(SharedDevice device, const CrossEntropy& spec,
                                                const ActivationFormat& logits, const ClassSlice& slice);
std::unique_ptr<Loss> make_squared_error(SharedDevice device, const ActivationFormat& predictions);

}  // namespace distdl::kernels::cuda
