// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <distdl/tensor/arena.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::kernels {

// Layers as plain values. kKind is the name of a layer. kElementwise: y has the shape of x, there are no parameters,
// and each value of y depends on one of x. Shapes in comments: N samples of a microbatch, C channels, H x W pixels, T
// positions of a sequence.

/// y = x W^T + b. x: (N, in), (N, T, in), or (N, C, H, W) with C*H*W = in, flattened in that order; y: (N, out) or
/// (N, T, out).
struct Linear {
  static constexpr const char* kKind = "linear";
  std::int64_t out = 0;
  bool bias = true;
};

/// Cross-correlation, zero padding. x: (N, C, H, W); weight: (out, C / groups, kernel, kernel); y: (N, out, H', W').
struct Conv2d {
  static constexpr const char* kKind = "conv2d";
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool bias = true;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;  ///< divides C and out
};

/// Largest value of each window; the first of equal ones gets the gradient. Padding counts as less than any value.
/// Windows that do not fit are dropped.
struct MaxPool2d {
  static constexpr const char* kKind = "max_pool2d";
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;  ///< at most kernel / 2
};

/// Mean of each window, without padding. Windows that do not fit are dropped.
struct AveragePool2d {
  static constexpr const char* kKind = "average_pool2d";
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
};

/// (N, C, H, W) to (N, C): the mean of each channel.
struct GlobalAveragePool {
  static constexpr const char* kKind = "global_average_pool";
};

/// max(x, 0); the gradient at 0 is 0.
struct Relu {
  static constexpr const char* kKind = "relu";
  static constexpr bool kElementwise = true;
};

/// x * Phi(x), computed with erf or with the approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) of GPT-2.
/// Hendrycks and Gimpel, "Gaussian error linear units", 2016.
struct Gelu {
  static constexpr const char* kKind = "gelu";
  static constexpr bool kElementwise = true;
  bool tanh = false;
};

/// x / (1 + exp(-x))
struct Silu {
  static constexpr const char* kKind = "silu";
  static constexpr bool kElementwise = true;
};

/// (.., 2 C) to (.., C): silu(first half) * second half of each row. Shazeer, "GLU variants improve transformer", 2020.
struct GatedSilu {
  static constexpr const char* kKind = "gated_silu";
};

/// Normalizes each channel over the microbatch (N, H, W), or each feature of (N, C). Training uses the microbatch's own
/// mean and biased variance, so the result does not depend on the number of ranks; evaluation uses the running ones.
/// Parameters: weight (C), bias (C); statistics: running_mean (C), running_var (C; unbiased, as PyTorch).
struct BatchNorm {
  static constexpr const char* kKind = "batch_norm";
  float epsilon = 1e-5f;
};

/// Each row of the last dimension to mean 0 and biased variance 1, then * weight (C) + bias (C). x: (N, C), (N, T, C).
struct LayerNorm {
  static constexpr const char* kKind = "layer_norm";
  float epsilon = 1e-5f;
};

/// x / sqrt(mean of x^2 + epsilon) * weight (C), per row of the last dimension. x: (N, C), (N, T, C).
struct RmsNorm {
  static constexpr const char* kKind = "rms_norm";
  float epsilon = 1e-5f;
};

/// Which rows of (N, T, C) an input (rows, C) has: those from number `first` of N * T on.
struct RowSlice {
  std::int64_t first = 0;
  std::int64_t places = 0;  ///< T; 0: the input has all rows
};

/// In training each value is set to 0 with this probability, else divided by 1 - probability. In evaluation values are
/// unchanged. The choice is a function of RngKey, `stream` and the index of the value in the dense microbatch, the same
/// on every backend: see elementwise::Stays.
/// Of a chunk of a sequence, or a slice of the rows, the values are those of the whole sequence's microbatch.
struct Dropout {
  static constexpr const char* kKind = "dropout";
  float probability = 0.1f;
  std::uint32_t stream = 0;  ///< different for each dropout layer of a model; below 2^16
  std::int64_t first = 0;    ///< place of (N, T, C) in the whole sequences
  std::int64_t all = 0;      ///< places of these; 0: the input has all
  RowSlice rows{};           ///< slice of (N, T, C)
};

/// Rows of a table: (N, T) numbers 0 .. entries - 1, stored as int32 instead of floats, to (N, T, width). The input has
/// no gradient. Parameter: weight (entries, width).
/// Of a slice of a table the weight has the rows from `first` on, and y is 0 for numbers of other rows.
struct Embedding {
  static constexpr const char* kKind = "embedding";
  std::int64_t entries = 0;
  std::int64_t width = 0;
  std::int64_t first = 0;  ///< row of the whole table
  std::int64_t all = 0;    ///< rows of the whole table; 0: the weight has all
};

/// y = x + weight, the same for each sample. x: (N, T, C); parameter: weight (places, C), of which T from `first` on
/// are used: the gradient of the rest is 0.
struct PositionEmbedding {
  static constexpr const char* kKind = "position_embedding";
  std::int64_t places = 0;
  std::int64_t first = 0;
  RowSlice rows{};  ///< slice of (N, T, C)
};

/// (N, T, C) to (N, 1 + T, C): adds a learned row before each sequence. Parameter: weight (C).
struct ClassToken {
  static constexpr const char* kKind = "class_token";
};

/// (N, C, H, W) to (N, H*W, C): an image as a sequence of pixels.
struct PixelsToSequence {
  static constexpr const char* kKind = "pixels_to_sequence";
};

/// (N, T, C) to (N, C): selects one position of each sequence.
struct SelectPlace {
  static constexpr const char* kKind = "select_place";
  std::int64_t place = 0;
};

/// Softmax(q k^T / sqrt(D)) v of each head. x: (N, T, (heads + 2 kv_heads) * D), in the order of all queries, all keys
/// and all values, each sorted by head; y: (N, T, heads * D). Query head h uses key and value head h * kv_heads /
/// heads. Causal: position t sees only positions 0 .. t. Vaswani et al., "Attention is all you need", 2017; Ainslie et
/// al., "GQA", 2023.
struct Attention {
  static constexpr const char* kKind = "attention";
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  ///< divides heads; 0: equal to heads
  bool causal = true;
  /// Rotates queries and keys by position: pairs (i, i + D/2) by the angle t * base^(-2 i / D). 0: no rotation. Su et
  /// al., "RoFormer", 2021, in the arrangement of Llama.
  double rotary_base = 0;
  /// Above 0: x is what JoinContext puts out, of so many queries, of a chunk of the sequences. No chunk after it
  /// counts: attention is causal.
  std::int64_t queries = 0;
  std::int64_t before = 0;  ///< places before the first query: there are keys and values of before + queries places
};

/// (N, T, (heads + 2 kv_heads) * D), queries, keys and values of a chunk of the sequences, to (N, T * heads * D +
/// (before + T) * 2 kv_heads * D): of each sample first the queries of all places of the chunk, then the keys and
/// values of all places up to its end. The layer writes those of the chunk; who calls it writes those of the places
/// before, and adds to the gradient of those of the chunk what the chunks after it have for them, before the backward
/// pass.
struct JoinContext {
  static constexpr const char* kKind = "join_context";
  std::int64_t heads = 1, kv_heads = 1;
  std::int64_t before = 0;
};

using LayerSpec = std::variant<Linear, Conv2d, MaxPool2d, AveragePool2d, GlobalAveragePool, Relu, Gelu, Silu, GatedSilu,
                               BatchNorm, LayerNorm, RmsNorm, Dropout, Embedding, PositionEmbedding, ClassToken,
                               PixelsToSequence, SelectPlace, Attention, JoinContext>;

template <class Spec>
concept Elementwise = requires {
  requires Spec::kElementwise;
};

// Losses as plain values.

/// Softmax and cross-entropy, fused. Predictions: logits (N, classes) or (N, T, classes); targets: the class of each
/// row, int32. A row's loss is in nats.
struct CrossEntropy {
  float smoothing = 0;                   ///< part of the target that is spread evenly over all classes
  std::optional<std::int32_t> ignore{};  ///< rows with this target are ignored
  /// Each row has two classes: the targets are (3, rows), a class, another class, and as float the share of the first
  /// in the row's loss. The class with the larger share counts as the row's target.
  bool is_mixed = false;
};

/// A slice of the classes, of which other slices have the rest.
struct ClassSlice {
  std::int64_t first = 0, all = 0;     ///< the first class of the slice, and the classes of all slices
  std::int64_t number = 0, count = 1;  ///< number of the slice, and count of all slices
};

/// The mean over a sample's values of (prediction - target)^2. Predictions: (N, ..), targets: floats of the same shape.
struct MeanSquaredError {};

using LossSpec = std::variant<CrossEntropy, MeanSquaredError>;

/// The number of terms in the sum of losses: rows of logits, or samples.
std::int64_t loss_terms(const LossSpec& spec, const tensor::Shape& predictions);
/// The number of targets, of four bytes each, for predictions of this shape. Throws ConfigError for an invalid shape or
/// parameter.
std::int64_t target_count(const LossSpec& spec, const tensor::Shape& predictions);

/// The initial values of a tensor.
enum class Init {
  fan_in_uniform,  ///< uniform in +-1/sqrt(fan_in), PyTorch's default for linear and convolution
  normal,          ///< mean 0, deviation ParameterSpec::deviation
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
  float deviation = 0.02f;
};

/// Attention::kv_heads, or heads if that is 0.
std::int64_t kv_heads_of(const Attention& spec);
/// Where the parts of an attention layer's input are: of each sample, `sample` values after those of the sample before,
/// the query of place t and head h begins at t * query_row + h * width; the key of place t and head h at keys + t *
/// key_row + h * width; its value kv_heads * width later.
struct AttentionLayout {
  std::int64_t queries, places;  ///< places: those of the keys
  std::int64_t width;            ///< values of a head
  std::int64_t sample, query_row, keys, key_row;
};
AttentionLayout layout_of(const Attention& spec, const tensor::Shape& input);

/// The name of a layer, such as "linear" or "conv2d".
std::string kind_of(const LayerSpec& spec);
/// Shape of the output for an input of shape `input`. Throws ConfigError if they do not fit.
tensor::Shape output_shape(const LayerSpec& spec, const tensor::Shape& input);
std::vector<ParameterSpec> parameters_of(const LayerSpec& spec, const tensor::Shape& input);

}  // namespace distdl::kernels
