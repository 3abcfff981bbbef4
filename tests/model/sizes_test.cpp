// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {
namespace {
using tensor::Shape;

struct Published {
  Options options;
  Shape sample;
  std::int64_t classes;
  std::size_t parameters;
};

Options gpt2(std::int64_t layers, std::int64_t width, std::int64_t heads) {
  return {.name = "gpt", .layers = layers, .width = width, .heads = heads};
}

Shape output_of(const Description& model, std::int64_t samples) {
  return wire(model, samples).layers.back().output;
}

Shape output_of(const Description& model, const std::string& layer) {
  const Wiring wiring = wire(model, 1);
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].name == layer) return wiring.layers[i].output;
  return {};
}

// torchvision 0.15, OpenAI's GPT-2 as in Hugging Face's transformers, timm; the CIFAR ResNet as in
// kuangliu/pytorch-cifar; LeNet and the small GPT as in the script that bench/train_vs_torch compares with.
TEST(Sizes, AreThePublishedOnes) {
  const std::vector<Published> all{
      {{.name = "resnet18"}, {3, 224, 224}, 1000, 11'689'512},
      {{.name = "resnet34"}, {3, 224, 224}, 1000, 21'797'672},
      {{.name = "resnet50"}, {3, 224, 224}, 1000, 25'557'032},
      {{.name = "resnet18"}, {3, 32, 32}, 10, 11'173'962},
      {gpt2(12, 768, 12), {1024}, 50257, 124'439'808},
      {gpt2(24, 1024, 16), {1024}, 50257, 354'823'168},
      {gpt2(36, 1280, 20), {1024}, 50257, 774'030'080},
      {gpt2(48, 1600, 25), {1024}, 50257, 1'557'611'200},
      {{.name = "vit"}, {3, 224, 224}, 1000, 86'567'656},
      {{.name = "vit", .width = 384, .heads = 6}, {3, 224, 224}, 1000, 22'050'664},
      {{}, {1, 28, 28}, 10, 421'642},
      {{.name = "gpt", .layers = 4, .width = 256, .heads = 4, .context = 256, .gelu = "erf", .tied_head = false},
       {256},
       256,
       3'356'160},
  };
  for (const auto& [options, sample, classes, parameters] : all) {
    SCOPED_TRACE(options.name + " " + std::to_string(parameters));
    const Description model = describe_model(options, sample, classes);
    EXPECT_EQ(parameter_count(tensors_of(model)), parameters);
    const Shape expected = sample.size() == 1 ? Shape{2, sample[0], classes} : Shape{2, classes};
    EXPECT_EQ(output_of(model, 2), expected);
  }
}

TEST(Sizes, OfResnetsInside) {
  const auto large = describe_model({.name = "resnet50"}, {3, 224, 224}, 1000);
  EXPECT_EQ(output_of(large, "conv1"), (Shape{1, 64, 112, 112}));
  EXPECT_EQ(output_of(large, "maxpool"), (Shape{1, 64, 56, 56}));
  EXPECT_EQ(output_of(large, "layer1.2.relu"), (Shape{1, 256, 56, 56}));
  EXPECT_EQ(output_of(large, "layer2.0.conv1"), (Shape{1, 128, 56, 56}));
  EXPECT_EQ(output_of(large, "layer2.0.conv2"), (Shape{1, 128, 28, 28}));
  EXPECT_EQ(output_of(large, "layer4.2.relu"), (Shape{1, 2048, 7, 7}));
  const auto small = describe_model({.name = "resnet18"}, {3, 32, 32}, 10);
  EXPECT_EQ(output_of(small, "conv1"), (Shape{1, 64, 32, 32}));
  EXPECT_EQ(output_of(small, "layer1.1.relu"), (Shape{1, 64, 32, 32}));
  EXPECT_EQ(output_of(small, "layer4.1.relu"), (Shape{1, 512, 4, 4}));
}

TEST(Sizes, TheStemFollowsTheImagesUnlessItIsNamed) {
  auto kernel = [](const std::string& stem, std::int64_t pixels) {
    return tensors_of(describe_model({.name = "resnet18", .stem = stem}, {3, pixels, pixels}, 10))
        .layout.find("conv1.weight")
        ->shape.back();
  };
  EXPECT_EQ(kernel("auto", 64), 3);
  EXPECT_EQ(kernel("auto", 65), 7);
  EXPECT_EQ(kernel("imagenet", 32), 7);
  EXPECT_EQ(kernel("cifar", 96), 3);
}

TEST(Sizes, OfTheLlamaVariant) {
  // TinyLlama 1.1B, whose 22 layers are 2048 wide, with 4 heads for keys and values: 32000 x 2048 in the table and
  // again in the head; per layer q and o 2048^2, k and v 256 x 2048, three matrices of 5632 x 2048, two norms.
  const Options options{.name = "gpt",
                        .layers = 22,
                        .width = 2048,
                        .heads = 32,
                        .kv_heads = 4,
                        .context = 2048,
                        .variant = "llama",
                        .tied_head = false};
  EXPECT_EQ(parameter_count(tensors_of(describe_model(options, {2048}, 32000))), 1'100'048'384u);
}

TEST(Sizes, AVocabularyMayBeLargerThanTheDataSets) {
  const auto model = describe_model({.name = "gpt", .layers = 1, .vocabulary = 50304}, {16}, 50257);
  EXPECT_EQ(output_of(model, 1), (Shape{1, 16, 50304}));
}

TEST(Sizes, WhatDoesNotFitIsRefused) {
  EXPECT_THROW(describe_model({.name = "gpt"}, {3, 32, 32}, 10), ConfigError);
  EXPECT_THROW(describe_model({.name = "gpt", .heads = 5}, {64}, 256), ConfigError);
  EXPECT_THROW(describe_model({.name = "gpt", .context = 32}, {64}, 256), ConfigError);
  EXPECT_THROW(describe_model({.name = "gpt", .vocabulary = 100}, {64}, 256), ConfigError);
  EXPECT_THROW(describe_model({.name = "gpt", .variant = "gpt5"}, {64}, 256), ConfigError);
  EXPECT_THROW(describe_model({.name = "gpt", .gelu = "fast"}, {64}, 256), ConfigError);
  EXPECT_THROW(describe_model({.name = "vit", .patch = 7}, {3, 32, 32}, 10), ConfigError);
  EXPECT_THROW(describe_model({.name = "vit"}, {1024}, 10), ConfigError);
  EXPECT_THROW(describe_model({.name = "resnet18", .stem = "large"}, {3, 32, 32}, 10), ConfigError);
}

TEST(Sizes, AModelOfOnesOwnIsKnownByItsName) {
  add_model("one-layer", [](const Options& options, const Shape& sample, std::int64_t classes) {
    return Description{options.name, sample, classes, {{"logits", kernels::Linear{classes}}}};
  });
  EXPECT_EQ(parameter_count(tensors_of(describe_model({.name = "one-layer"}, {1, 2, 3}, 4))), 28u);
  EXPECT_THROW(add_model("one-layer", mlp), ConfigError);
}

TEST(Start, ResidualProjectionsOfGptAreSmallerByTheNumberOfAdditions) {
  const auto tensors = tensors_of(describe_model({.name = "gpt", .layers = 8}, {16}, 256));
  auto deviation = [&](const std::string& name) {
    for (const auto& tensor : tensors.tensors)
      if (tensor.view.name == name && tensor.spec.init == kernels::Init::normal) return tensor.spec.deviation;
    return 0.0f;
  };
  EXPECT_FLOAT_EQ(deviation("wte.weight"), 0.02f);
  EXPECT_FLOAT_EQ(deviation("h.3.attn.c_attn.weight"), 0.02f);
  EXPECT_FLOAT_EQ(deviation("h.3.attn.c_proj.weight"), 0.005f);
  EXPECT_FLOAT_EQ(deviation("h.7.mlp.c_proj.weight"), 0.005f);
}
}  // namespace
}  // namespace distdl::model
