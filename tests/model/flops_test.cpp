// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/bound_network.hpp"
#include <distdl/kernels/layer_flops.hpp>
#include <distdl/model/flops.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/tensor_shards.hpp>

namespace distdl::model {
namespace {
Options counted_gpt() {
  return {.name = "gpt", .layers = 2, .width = 32, .heads = 4, .context = 16};
}

TEST(Flops, OfLayersAreThoseOfTheirProducts) {
  const auto of = [](const kernels::LayerSpec& spec, const tensor::Shape& input) {
    const auto flops = kernels::flops_of(spec, input);
    return std::vector{flops.forward, flops.backward_input, flops.backward_weights};
  };
  const auto each = [](double flops) { return std::vector{flops, flops, flops}; };
  EXPECT_EQ(of(kernels::Linear{.out = 7}, {3, 5}), each(2 * 3 * 5 * 7));
  EXPECT_EQ(of(kernels::Linear{.out = 7}, {3, 4, 5}), each(2 * 12 * 5 * 7));
  EXPECT_EQ(of(kernels::Linear{.out = 7}, {3, 5, 2, 2}), each(2 * 3 * 20 * 7));
  // 8 x 8 outputs of 4 channels; 6 / 2 channels of 3 x 3 values for each
  EXPECT_EQ(of(kernels::Conv2d{.out = 4, .padding = 1, .groups = 2}, {5, 6, 8, 8}), each(2 * 5 * 4 * 64 * 27));
  EXPECT_EQ(of(kernels::Conv2d{.out = 4, .stride = 2}, {1, 1, 7, 7}), each(2 * 4 * 9 * 9));
  // 4 query heads of 8 values, 1 of keys
  const double product = 2 * 3 * 4 * 16 * 16 * 8;
  for (const bool causal : {false, true})
    EXPECT_EQ(of(kernels::Attention{.heads = 4, .kv_heads = 1, .causal = causal}, {3, 16, 48}),
              (std::vector{2 * product, 4 * product, 0.0}));
  for (const kernels::LayerSpec& other : {kernels::LayerSpec(kernels::Relu{}), kernels::LayerSpec(kernels::LayerNorm{}),
                                          kernels::LayerSpec(kernels::Embedding{.entries = 9, .width = 4})})
    EXPECT_EQ(of(other, {3, 5}), each(0));
}

/// PaLM (2022), appendix B: 6 N + 12 L H Q T for each token, where N counts the weights of products.
TEST(Flops, OfAGptAreThoseOfThePalmFormula) {
  for (const bool tied : {true, false}) {
    Options options = counted_gpt();
    options.tied_head = tied;
    const double weights = 2 * (12 * 32 * 32) + 100 * 32, tokens = 16;
    const auto flops = flops_of(describe_model(options, {16}, 100), 3);
    EXPECT_DOUBLE_EQ(flops.total(), 3 * tokens * (6 * weights + 12 * 2 * 32 * 16));
    EXPECT_DOUBLE_EQ(flops.backward, 2 * flops.forward);
  }
}

/// TinyLlama 1.1B: 22 blocks of width 2048, 32 heads that share 4 of keys and values, 5632 gated values, 32,000 tokens.
TEST(Flops, OfALlamaAreThoseOfThePalmFormula) {
  const double attention = 2048 * (32 + 2 * 4) * 64 + 2048 * 2048, gated = 3 * 2048 * 5632;
  const double weights = 22 * (attention + gated) + 32000 * 2048, tokens = 2048;
  EXPECT_EQ(weights, 1'034'420'224) << "the published 1,100,048,384 parameters without table of tokens and norms";
  const auto model = describe_model({.name = "gpt",
                                     .layers = 22,
                                     .width = 2048,
                                     .heads = 32,
                                     .kv_heads = 4,
                                     .context = 2048,
                                     .variant = GptVariant::llama,
                                     .tied_head = false},
                                    {2048}, 32000);
  const auto flops = flops_of(model, 3);
  EXPECT_DOUBLE_EQ(flops.total(), 3 * tokens * (6 * weights + 12 * 22 * 2048 * tokens));
  EXPECT_DOUBLE_EQ(flops.backward, 2 * flops.forward);
}

/// He et al., "Deep residual learning", CVPR 2016, table 1: 224 x 224 pixels, 1000 classes. A 3 x 3 convolution of a
/// stage has as many products in each stage, because its pixels are a quarter of those before and its channels twice as
/// many. Bottlenecks have their stride in the 3 x 3 convolution, as most programs do.
TEST(Flops, OfResnetsAreThoseOfTheirTable) {
  const double stem = 112 * 112 * 64 * 3 * 49, square = 56 * 56 * 64 * 64;  // a 1 x 1 convolution of 64 channels
  const double full = 9 * square, fits = 3 * (full / 2 + square / 2);       // 3 stages begin with half the channels
  const double wide = 4 * square;                                           // 1 x 1, of which one side has 256
  const double bottleneck = 2 * wide + full, first = square + wide + full + wide;
  const double strided = 2 * wide + full + wide + 2 * wide;  // both 1 x 1 that read the input have twice as many
  const std::vector<std::tuple<std::string, double, double>> cases{
      {"resnet18", stem + 13 * full + fits + 512 * 1000, 1'814'073'344},
      {"resnet34", stem + 29 * full + fits + 512 * 1000, 3'663'761'408},
      {"resnet50", stem + first + 12 * bottleneck + 3 * strided + 2048 * 1000, 4'089'184'256}};
  for (const auto& [name, products, published] : cases) {
    EXPECT_EQ(products, published) << name;
    const auto flops = flops_of(describe_model({.name = name}, {3, 224, 224}, 1000), 2);
    EXPECT_DOUBLE_EQ(flops.forward, 2 * 2 * products) << name;
    EXPECT_DOUBLE_EQ(flops.backward, 2 * flops.forward - 2 * 2 * stem) << name << ": images have no gradient";
  }
}

TEST(Flops, TheGradientOfTheSamplesIsNotCounted) {
  const auto flops = flops_of(describe_model({.name = "mlp", .hidden = {8}}, {1, 4, 4}, 10), 2);
  EXPECT_DOUBLE_EQ(flops.forward, 2 * 2 * (16 * 8 + 8 * 10));
  EXPECT_DOUBLE_EQ(flops.backward, 2 * 2 * (16 * 8 + 2 * 8 * 10));
}

TEST(Flops, ADividedModelHasAsManyAsTheWhole) {
  const auto model = describe_model(counted_gpt(), {16}, 100);
  EXPECT_DOUBLE_EQ(flops_of(divide(model, 4), 3).total(), flops_of(model, 3).total());
}

TEST(Flops, OfRecomputationAreLessThanAForwardPass) {
  const auto model = describe_model(counted_gpt(), {16}, 100);
  EXPECT_EQ(BoundNetwork("reference", model, 2).network.repeated_flops(), 0);
  const BoundNetwork repeats("reference", model, 2, "fp32", Network::Activations::recomputed);
  const double head = 2 * 2 * 16 * 100 * 32;  // which comes last, so that nothing of it is computed again
  EXPECT_GT(repeats.network.repeated_flops(), 0);
  EXPECT_LE(repeats.network.repeated_flops(), flops_of(model, 2).forward - head);
  auto in_chunks = model;
  in_chunks.context = {.chunks = 2, .first = 0, .count = 2};
  EXPECT_GT(BoundNetwork("reference", in_chunks, 2, "fp32", Network::Activations::recomputed).network.repeated_flops(),
            0);
}

TEST(Flops, MemoryOfTheWorkspaceIsCounted) {
  const BoundNetwork kept("reference", describe_model(counted_gpt(), {16}, 100), 2);
  EXPECT_GT(kept.network.workspace_bytes(), 2 * 16 * 32 * sizeof(float)) << "a gradient of an activation";
}
}  // namespace
}  // namespace distdl::model
