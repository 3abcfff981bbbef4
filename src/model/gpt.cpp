// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {
namespace {
using kernels::Attention;
using kernels::Dropout;
using kernels::Embedding;
using kernels::GatedSilu;
using kernels::Gelu;
using kernels::LayerNorm;
using kernels::LayerSpec;
using kernels::Linear;
using kernels::PositionEmbedding;
using kernels::RmsNorm;

constexpr std::int64_t kGatedMultiple = 256;

class Builder {
 public:
  Builder(Description& model, const Options& options)
      : layers_(model.layers),
        options_(options),
        llama_(options.variant == GptVariant::llama),
        kv_heads_(options.kv_heads == 0 ? options.heads : options.kv_heads) {}

  void embedding(std::int64_t vocabulary) {
    layers_.push_back({.name = "wte", .spec = Embedding{vocabulary, options_.width}, .split = Split::entries});
    if (!llama_) layers_.push_back({"wpe", PositionEmbedding{options_.context}});
    if (options_.dropout > 0) layers_.push_back({"drop", next_dropout()});
  }

  /// x + attention(norm(x)), then x + mlp(norm(x)).
  void block(const std::string& name) {
    std::string stream = layers_.back().name;
    const std::int64_t head = options_.width / options_.heads;
    norm(name + ".ln_1");
    linear(name + ".attn.c_attn", (options_.heads + 2 * kv_heads_) * head, Split::outputs, options_.qkv_bias);
    layers_.push_back({name + ".attn.heads", Attention{.heads = options_.heads,
                                                       .kv_heads = kv_heads_,
                                                       .causal = true,
                                                       .rotary_base = llama_ ? options_.rotary_base : 0}});
    add_to(stream, name + ".attn.c_proj");
    stream = layers_.back().name;
    norm(name + ".ln_2");
    linear(name + ".mlp.c_fc", (llama_ ? 2 : 1) * mlp_width_of_gpt(options_), Split::outputs);
    layers_.push_back(
        {name + ".mlp.act", llama_ ? LayerSpec(GatedSilu{}) : Gelu{.tanh = options_.gelu == GeluFormula::tanh}});
    add_to(stream, name + ".mlp.c_proj");
  }

  void head(std::int64_t vocabulary) {
    norm("ln_f");
    layers_.push_back({.name = "lm_head",
                       .spec = Linear{.out = vocabulary, .bias = false},
                       .shares = options_.tied_head ? "wte" : "",
                       .start = Start{},
                       .split = Split::outputs});
  }

 private:
  void norm(const std::string& name) {
    const auto epsilon = static_cast<float>(options_.norm_epsilon);
    layers_.push_back({name, llama_ ? LayerSpec(RmsNorm{epsilon}) : LayerNorm{epsilon}});
  }

  void linear(const std::string& name, std::int64_t out, Split split, bool bias = false) {
    layers_.push_back(
        {.name = name, .spec = Linear{.out = out, .bias = bias || !llama_}, .start = Start{}, .split = split});
  }

  /// A linear layer whose output is added to that of the layer `stream`. It starts smaller, for there are two in each
  /// block that add up.
  void add_to(const std::string& stream, const std::string& name) {
    linear(name, options_.width, Split::inputs);
    layers_.back().start->deviation /= std::sqrt(2 * static_cast<float>(options_.layers));
    if (options_.dropout > 0) layers_.push_back({name + ".drop", next_dropout()});
    layers_.back().plus = stream;
  }

  Dropout next_dropout() { return {.probability = static_cast<float>(options_.dropout), .stream = dropouts_++}; }

  std::vector<NamedLayer>& layers_;
  const Options& options_;
  bool llama_;
  std::int64_t kv_heads_;
  std::uint32_t dropouts_ = 0;
};

void check(const Options& options, const tensor::Shape& sample, std::int64_t tokens) {
  require(sample.size() == 1, "model \"gpt\" takes sequences of tokens (T), but the data set has samples of shape {}",
          tensor::to_string(sample));
  require(options.layers >= 1 && options.width >= 1,
          "model.layers is {} and model.width is {}, but both must be at least 1", options.layers, options.width);
  require(options.heads >= 1 && options.width % options.heads == 0,
          "model.heads is {}, which must divide model.width = {}", options.heads, options.width);
  require(sample[0] <= options.context, "model.context is {}, but the samples have {} tokens", options.context,
          sample[0]);
  require(options.vocabulary == 0 || options.vocabulary >= tokens,
          "model.vocabulary is {}, but the data set has {} different tokens", options.vocabulary, tokens);
}
}  // namespace

std::int64_t mlp_width_of_gpt(const Options& options) {
  if (options.mlp_width > 0) return options.mlp_width;
  if (options.variant == GptVariant::gpt2) return 4 * options.width;
  // Two thirds of 4 * width, since there are three matrices instead of two; rounded up, as the first Llama has it.
  return (8 * options.width / 3 + kGatedMultiple - 1) / kGatedMultiple * kGatedMultiple;
}

Description gpt(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  check(options, sample, classes);
  const std::int64_t vocabulary = options.vocabulary == 0 ? classes : options.vocabulary;
  Description model{"gpt", sample, vocabulary, {}};
  Builder build(model, options);
  build.embedding(vocabulary);
  for (std::int64_t i = 0; i < options.layers; ++i) build.block("h." + std::to_string(i));
  build.head(vocabulary);
  return model;
}

}  // namespace distdl::model
