// SPDX-License-Identifier: Apache-2.0
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
