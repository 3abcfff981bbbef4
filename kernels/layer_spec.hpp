// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <distdl/tensor/arena.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::kernels {

// Layers as plain values. Shapes in comments: N samples of a microbatch, C channels, H x W pixels.

/// y = x W^T + b. x: (N, in) or (N, C, H, W) with C*H*W = in, flattened in that order; y: (N, out).
struct Linear {
  std::int64_t out = 0;
};

/// Cross-correlation, zero padding. x: (N, C, H, W); weight: (out, C, kernel, kernel); y: (N, out, H', W').
struct Conv2d {
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool bias = true;
};

/// Largest value of each window; the first of equal ones gets the gradient. Windows that do not fit are dropped.
struct MaxPool2d {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
};

/// max(x, 0); the gradient at 0 is 0.
struct Relu {};

/// Normalizes each channel over the microbatch (N, H, W), or each feature of (N, C). Training uses the microbatch's own
/// mean and biased variance, so the result does not depend on the number of ranks; evaluation uses the running ones.
/// Parameters: weight (C), bias (C); statistics: running_mean (C), running_var (C; unbiased, as PyTorch).
struct BatchNorm {
  float epsilon = 1e-5f;
};

using LayerSpec = std::variant<Linear, Conv2d, MaxPool2d, Relu, BatchNorm>;

/// How a tensor starts.
enum class Init {
  fan_in_uniform,  ///< uniform in +-1/sqrt(fan_in), PyTorch's default for linear and convolution
  zeros,
  ones,
};

/// One tensor of a layer, in the order in which Layer's calls take its pointers.
struct ParameterSpec {
  std::string name;  ///< "weight", "bias", "running_mean", "running_var"
  tensor::Shape shape;
  tensor::Role role = tensor::Role::parameter;
  Init init = Init::zeros;
  std::int64_t fan_in = 1;
};

/// "linear", "conv2d", ...
std::string kind_of(const LayerSpec& spec);
/// Shape of the output for an input of shape `input`. Throws ConfigError if they do not fit.
tensor::Shape output_shape(const LayerSpec& spec, const tensor::Shape& input);
std::vector<ParameterSpec> parameters_of(const LayerSpec& spec, const tensor::Shape& input);

}  // namespace distdl::kernels
