// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>

namespace distdl::model {

/// The first layers of a resnet.
enum class Stem { automatic, imagenet, cifar };
constexpr std::array<Named<Stem>, 3> choices_of(Stem) {
  return {{
      {Stem::automatic, "auto", "cifar for images of up to 64 x 64 pixels"},
      {Stem::imagenet, "imagenet", "7 x 7 with stride 2, then pooled"},
      {Stem::cifar, "cifar", "3 x 3"},
  }};
}

/// The layers of a gpt.
enum class GptVariant { gpt2, llama };
constexpr std::array<Named<GptVariant>, 2> choices_of(GptVariant) {
  return {{
      {GptVariant::gpt2, "gpt2", "layer norm, GELU, learnt positions, biases"},
      {GptVariant::llama, "llama", "RMS norm, gated SiLU, rotary positions, no biases"},
  }};
}

/// The formula for GELU.
enum class GeluFormula { tanh, erf };
constexpr std::array<Named<GeluFormula>, 2> choices_of(GeluFormula) {
  return {{
      {GeluFormula::tanh, "tanh", "as published"},
      {GeluFormula::erf, "erf", "exact"},
  }};
}

/// The model and its sizes. Each model uses only the keys that name it.
struct Options {
  std::string name = "lenet";                ///< see known_models()
  double label_smoothing = 0;                ///< all: part of the target that is spread evenly over all classes
  std::vector<std::int64_t> hidden = {128};  ///< mlp, lenet: widths of the hidden linear layers; fcn: channels
  bool batch_norm = false;                   ///< mlp, lenet, fcn: normalize after each hidden or convolution layer
  OneOf<Stem> stem = Stem::automatic;        ///< resnet
  std::int64_t layers = 12;                  ///< gpt, vit: blocks
  std::int64_t width = 768;                  ///< gpt, vit: values per position of the sequence
  std::int64_t heads = 12;                   ///< gpt, vit: attention heads; must divide width
  std::int64_t kv_heads = 0;                 ///< gpt: heads for keys and values; 0: equal to heads
  std::int64_t context = 1024;               ///< gpt: longest sequence, also used in training
  std::int64_t vocabulary = 0;               ///< gpt: rows of the table of tokens; 0: the vocabulary of the data set
  OneOf<GptVariant> variant = GptVariant::gpt2;
  OneOf<GeluFormula> gelu = GeluFormula::tanh;  ///< gpt: for the variant gpt2
  bool tied_head = true;                        ///< gpt: compute logits with the table of tokens
  std::int64_t mlp_width = 0;                   ///< gpt: hidden values of the MLP; 0: by the variant
  double norm_epsilon = 1e-5;                   ///< gpt
  double rotary_base = 10000;                   ///< gpt: for the variant llama
  bool qkv_bias = false;                        ///< gpt: for the variant llama
  std::int64_t patch = 16;                      ///< vit: height and width of a patch, in pixels
  double dropout = 0;                           ///< gpt, vit: probability
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("model.name", options.name,
        "\"lenet\" (two convolutions), \"mlp\" (linear layers only), \"resnet18\", \"resnet34\", \"resnet50\", \"vit\" "
        "(images), \"gpt\" (text), \"fcn\" (fields from fields)");
  visit("model.label_smoothing", options.label_smoothing,
        "part of the target that is spread evenly over all classes, in training and in evaluation");
  visit("model.hidden", options.hidden,
        "mlp, lenet: widths of the hidden linear layers, e.g. [256, 128]; fcn: channels of the hidden convolutions");
  visit("model.batch_norm", options.batch_norm,
        "mlp, lenet, fcn: normalize after each hidden or convolution layer, over each microbatch");
  visit("model.stem", options.stem, OneOf<Stem>::help("first layers of a resnet"));
  visit("model.layers", options.layers, "gpt, vit: number of blocks");
  visit("model.width", options.width, "gpt, vit: values per position of the sequence");
  visit("model.heads", options.heads, "gpt, vit: attention heads; must divide model.width");
  visit("model.kv_heads", options.kv_heads,
        "gpt: heads for keys and values, shared by groups of heads; 0: model.heads");
  visit("model.context", options.context, "gpt: tokens of a sample, and the longest sequence that the model can take");
  visit("model.vocabulary", options.vocabulary, "gpt: rows of the table of tokens; 0: the vocabulary of the data set");
  visit("model.variant", options.variant, OneOf<GptVariant>::help("layers of a gpt"));
  visit("model.gelu", options.gelu, OneOf<GeluFormula>::help("GELU of the gpt variant gpt2"));
  visit("model.tied_head", options.tied_head, "gpt: the table of tokens also gives the logits");
  visit("model.mlp_width", options.mlp_width,
        "gpt: hidden values of the MLP of each block; 0: 4 * model.width, or for the variant llama 8/3 * model.width, "
        "rounded up to a multiple of 256");
  visit("model.norm_epsilon", options.norm_epsilon, "gpt: what norms add to the variance or the mean square");
  visit("model.rotary_base", options.rotary_base,
        "gpt: base of the rotary positions of the variant llama; 500000 in Llama 3, 1000000 in Qwen 2");
  visit("model.qkv_bias", options.qkv_bias,
        "gpt: biases of queries, keys and values in the variant llama, as in Qwen 2");
  visit("model.patch", options.patch, "vit: height and width of a patch in pixels");
  visit("model.dropout", options.dropout,
        "gpt, vit: probability that a value is dropped after the embedding and before each addition");
}

}  // namespace distdl::model
