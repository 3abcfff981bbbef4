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
