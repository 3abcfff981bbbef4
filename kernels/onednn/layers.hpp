// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/host/stateless.hpp>
#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {

/// Which activations of 16 bits a layer takes as they are. For the others one of floats serves, between two roundings.
enum class SixteenBits {
  none,
  bfloat16,       ///< bfloat16, where oneDNN computes with it
  fast_bfloat16,  ///< bfloat16, where the processor multiplies it faster than floats
  dense,          ///< both types, unless the input has a layout of oneDNN's
  all
};
template <class Spec>
inline constexpr SixteenBits kSixteenBits = SixteenBits::none;

// A layer is its make_layer, and its kSixteenBits unless it takes floats alone. `context` outlives the layer.
std::unique_ptr<Layer> make_layer(Context& context, const Linear& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<Linear> = SixteenBits::fast_bfloat16;
std::unique_ptr<Layer> make_layer(Context& context, const Conv2d& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<Conv2d> = SixteenBits::fast_bfloat16;
std::unique_ptr<Layer> make_layer(Context& context, const MaxPool2d& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<MaxPool2d> = SixteenBits::all;
std::unique_ptr<Layer> make_layer(Context& context, const AveragePool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const GlobalAveragePool& spec, const ActivationFormat& input);
void relu_in_place(const ActivationFormat& format, void* y);
std::unique_ptr<Layer> make_layer(Context& context, const Relu& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<Relu> = SixteenBits::all;
std::unique_ptr<Layer> make_layer(Context& context, const Gelu& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<Gelu> = SixteenBits::bfloat16;
std::unique_ptr<Layer> make_layer(Context& context, const Silu& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<Silu> = SixteenBits::bfloat16;
std::unique_ptr<Layer> make_layer(Context& context, const BatchNorm& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<BatchNorm> = SixteenBits::bfloat16;
std::unique_ptr<Layer> make_layer(Context& context, const LayerNorm& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<LayerNorm> = SixteenBits::all;
std::unique_ptr<Layer> make_layer(Context& context, const RmsNorm& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<RmsNorm> = SixteenBits::all;
std::unique_ptr<Layer> make_layer(Context& context, const GatedSilu& spec, const ActivationFormat& input);
template <>
inline constexpr SixteenBits kSixteenBits<GatedSilu> = SixteenBits::all;
std::unique_ptr<Layer> make_layer(Context& context, const Attention& spec, const ActivationFormat& input);

}  // namespace distdl::kernels::onednn
