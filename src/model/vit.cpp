// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {
namespace {
using kernels::Attention;
using kernels::ClassToken;
using kernels::Conv2d;
using kernels::Dropout;
using kernels::Gelu;
using kernels::LayerNorm;
using kernels::Linear;
using kernels::PixelsToSequence;
using kernels::PositionEmbedding;
using kernels::SelectPlace;

constexpr float kEpsilon = 1e-6f;

class VitBuilder {
 public:
  VitBuilder(Description& model, const Options& options) : layers_(model.layers), options_(options) {}

  /// A sequence of patches, each one pixel of a convolution whose windows do not overlap, behind a learnt class token.
  void patches(std::int64_t places) {
    layers_.push_back(
        {.name = "patch_embed.proj",
         .spec = Conv2d{.out = options_.width, .kernel = options_.patch, .stride = options_.patch, .padding = 0},
         .start = Start{}});
    layers_.push_back({"patch_embed.sequence", PixelsToSequence{}});
    layers_.push_back({"cls_token", ClassToken{}});
    layers_.push_back({"pos_embed", PositionEmbedding{places}});
    if (options_.dropout > 0) layers_.push_back({"pos_drop", next_dropout()});
  }

  /// x + attention(norm(x)), then x + mlp(norm(x)).
  void block(const std::string& name) {
    std::string stream = layers_.back().name;
    layers_.push_back({name + ".norm1", LayerNorm{kEpsilon}});
    linear(name + ".attn.qkv", 3 * options_.width, Split::outputs);
    layers_.push_back({name + ".attn.heads", Attention{.heads = options_.heads, .causal = false}});
    add_to(stream, name + ".attn.proj");
    stream = layers_.back().name;
    layers_.push_back({name + ".norm2", LayerNorm{kEpsilon}});
    linear(name + ".mlp.fc1", 4 * options_.width, Split::outputs);
    layers_.push_back({name + ".mlp.act", Gelu{}});
    add_to(stream, name + ".mlp.fc2");
  }

  void head(std::int64_t classes) {
    layers_.push_back({"class", SelectPlace{0}});  // before the norm, which is row by row
    layers_.push_back({"norm", LayerNorm{kEpsilon}});
    linear("head", classes);
  }

 private:
  void linear(const std::string& name, std::int64_t out, std::optional<Split> split = {}) {
    layers_.push_back({.name = name, .spec = Linear{out}, .start = Start{}, .split = split});
  }

  void add_to(const std::string& stream, const std::string& name) {
    linear(name, options_.width, Split::inputs);
    if (options_.dropout > 0) layers_.push_back({name + ".drop", next_dropout()});
    layers_.back().plus = stream;
  }

  Dropout next_dropout() { return {.probability = static_cast<float>(options_.dropout), .stream = dropouts_++}; }

  std::vector<NamedLayer>& layers_;
  const Options& options_;
  std::uint32_t dropouts_ = 0;
};
}  // namespace

Description vit(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  require_images("vit", sample);
  require(options.layers >= 1 && options.width >= 1,
          "model.layers is {} and model.width is {}, but both must be at least 1", options.layers, options.width);
  require(options.heads >= 1 && options.width % options.heads == 0,
          "model.heads is {}, which must divide model.width = {}", options.heads, options.width);
  require(options.patch >= 1 && sample[1] % options.patch == 0 && sample[2] % options.patch == 0,
          "model.patch is {}, which must divide the height and width of the images {}", options.patch,
          tensor::to_string(sample));
  Description model{"vit", sample, classes, {}};
  VitBuilder build(model, options);
  build.patches(1 + sample[1] / options.patch * (sample[2] / options.patch));
  for (std::int64_t i = 0; i < options.layers; ++i) build.block("blocks." + std::to_string(i));
  build.head(classes);
  return model;
}

}  // namespace distdl::model
