// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/layer_spec.hpp>

namespace distdl::kernels {
namespace {
using tensor::Shape;
using testing::HasSubstr;

std::string message_of(const LayerSpec& spec, const Shape& input) {
  try {
    output_shape(spec, input);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(LayerSpec, TellsTheShapeOfTheOutput) {
  EXPECT_EQ(output_shape(Linear{10}, {64, 3, 7, 7}), (Shape{64, 10}));
  EXPECT_EQ(output_shape(Conv2d{.out = 8, .kernel = 3, .stride = 2, .padding = 1}, {2, 3, 7, 8}), (Shape{2, 8, 4, 4}));
  EXPECT_EQ(output_shape(MaxPool2d{3, 2}, {2, 5, 8, 7}), (Shape{2, 5, 3, 3}));
  EXPECT_EQ(output_shape(Relu{}, {2, 5}), (Shape{2, 5}));
  EXPECT_EQ(output_shape(BatchNorm{}, {2, 5, 1, 1}), (Shape{2, 5, 1, 1}));
}

TEST(LayerSpec, RefusesWhatDoesNotFit) {
  EXPECT_THAT(message_of(Conv2d{.out = 1, .kernel = 5}, {1, 1, 4, 4}),
              HasSubstr("does not fit an input of shape (1, 1, 4, 4)"));
  EXPECT_THAT(message_of(Conv2d{.out = 0}, {1, 1, 4, 4}), HasSubstr("0 outputs"));
  EXPECT_THAT(message_of(Conv2d{.out = 1, .kernel = 3, .padding = 3}, {1, 1, 4, 4}), HasSubstr("padding"));
  EXPECT_THAT(message_of(MaxPool2d{2, 0}, {1, 1, 4, 4}), HasSubstr("stride 0"));
  EXPECT_THAT(message_of(Linear{3}, {5}), HasSubstr("linear"));
  EXPECT_THAT(message_of(Linear{3}, {0, 5}), HasSubstr("empty"));
  EXPECT_THAT(message_of(BatchNorm{0}, {1, 5}), HasSubstr("epsilon"));
}

TEST(LayerSpec, TellsTheShapeOfSequencesToo) {
  EXPECT_EQ(output_shape(Linear{10}, {2, 5, 7}), (Shape{2, 5, 10}));
  EXPECT_EQ(output_shape(Conv2d{.out = 8, .padding = 2, .dilation = 2}, {2, 3, 7, 8}), (Shape{2, 8, 7, 8}));
  EXPECT_EQ(output_shape(MaxPool2d{3, 2, 1}, {2, 5, 8, 7}), (Shape{2, 5, 4, 4}));
  EXPECT_EQ(output_shape(GlobalAveragePool{}, {2, 5, 8, 7}), (Shape{2, 5}));
  EXPECT_EQ(output_shape(Embedding{100, 16}, {2, 5}), (Shape{2, 5, 16}));
  EXPECT_EQ(output_shape(ClassToken{}, {2, 5, 16}), (Shape{2, 6, 16}));
  EXPECT_EQ(output_shape(PixelsToSequence{}, {2, 16, 3, 4}), (Shape{2, 12, 16}));
  EXPECT_EQ(output_shape(SelectPlace{4}, {2, 5, 16}), (Shape{2, 16}));
  EXPECT_EQ(output_shape(GatedSilu{}, {2, 5, 16}), (Shape{2, 5, 8}));
  EXPECT_EQ(output_shape(Attention{.heads = 4, .kv_heads = 2}, {2, 5, 64}), (Shape{2, 5, 32}));
}

TEST(LayerSpec, RefusesSequencesThatDoNotFit) {
  EXPECT_THAT(message_of(Conv2d{.out = 4, .groups = 3}, {1, 4, 4, 4}), HasSubstr("3 groups"));
  EXPECT_THAT(message_of(MaxPool2d{3, 2, 2}, {1, 4, 4, 4}), HasSubstr("at most half of its kernel"));
  EXPECT_THAT(message_of(GatedSilu{}, {2, 5}), HasSubstr("cannot be halved"));
  EXPECT_THAT(message_of(Embedding{3, 2, 2, 4}, {2, 5}), HasSubstr("rows 2 to 4 of a table, which has only 4"));
  EXPECT_THAT(message_of(PositionEmbedding{4}, {2, 5, 3}), HasSubstr("4 positions cannot take 5"));
  EXPECT_THAT(message_of(SelectPlace{5}, {2, 5, 3}), HasSubstr("does not exist"));
  EXPECT_THAT(message_of(Dropout{.probability = 1}, {2, 5}), HasSubstr("probability 1"));
  EXPECT_THAT(message_of(Attention{.heads = 4, .kv_heads = 3}, {2, 5, 60}), HasSubstr("must divide them"));
  EXPECT_THAT(message_of(Attention{.heads = 4}, {2, 5, 50}), HasSubstr("must divide"));
  EXPECT_THAT(message_of(Attention{.heads = 2, .rotary_base = 10}, {2, 5, 18}), HasSubstr("rotates pairs"));
}

TEST(LossSpec, TellsWhatItComparesWith) {
  EXPECT_EQ(loss_terms(CrossEntropy{}, {4, 10}), 4);
  EXPECT_EQ(loss_terms(CrossEntropy{}, {4, 6, 10}), 24);
  EXPECT_EQ(target_count(CrossEntropy{}, {4, 6, 10}), 24);
  EXPECT_EQ(target_count(CrossEntropy{.is_mixed = true}, {4, 10}), 12);
  EXPECT_EQ(loss_terms(MeanSquaredError{}, {4, 6, 10}), 4);
  EXPECT_EQ(target_count(MeanSquaredError{}, {4, 6, 10}), 240);
}

TEST(LayerSpec, ListsParametersInOrder) {
  auto conv = parameters_of(Conv2d{.out = 8, .kernel = 3}, {2, 4, 7, 7});
  ASSERT_EQ(conv.size(), 2u);
  EXPECT_EQ(conv[0].shape, (Shape{8, 4, 3, 3}));
  EXPECT_EQ(conv[0].fan_in, 36);
  EXPECT_EQ(conv[1].name, "bias");
  EXPECT_EQ(conv[1].fan_in, 36);
  EXPECT_EQ(parameters_of(Conv2d{.out = 8, .bias = false}, {2, 4, 7, 7}).size(), 1u);
  auto norm = parameters_of(BatchNorm{}, {2, 4});
  ASSERT_EQ(norm.size(), 4u);
  EXPECT_EQ(norm[3].name, "running_var");
  EXPECT_EQ(norm[3].role, tensor::Role::statistic);
  EXPECT_EQ(norm[3].init, Init::ones);
  EXPECT_EQ(kind_of(BatchNorm{}), "batch_norm");
}
}  // namespace
}  // namespace distdl::kernels
