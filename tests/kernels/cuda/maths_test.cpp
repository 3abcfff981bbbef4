// SPDX-License-Identifier: Apache-2.0
// The index and reduction maths of the CUDA kernels, run on the CPU against the backend "reference". Needs no CUDA.
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/cuda/batch_norm.hpp>
#include <distdl/kernels/cuda/channels.hpp>
#include <distdl/kernels/cuda/max_pool2d.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using tensor::element_count;
using tensor::Shape;
using testing::FloatNear;
using testing::Pointwise;

TEST(CudaMaths, LinearProductsAreThoseOfTheReference) {
  Reference reference(Linear{5}, {3, 2, 2, 2});
  reference.forward_backward();
  LinearGemms gemms{3, 8, 5};
  Channels outputs{3, 5, 1};
  Values y(15), dx(24), dweight(40), dbias(5);
  multiply(gemms.forward(), 1, reference.parameters[0].data(), reference.x.data(), y.data());
  for_each(y.size(), AddBias{y.data(), reference.parameters[1].data(), outputs});
  multiply(gemms.backward_input(), 1, reference.parameters[0].data(), reference.dy.data(), dx.data());
  multiply(gemms.backward_weights(), 1, reference.x.data(), reference.dy.data(), dweight.data());
  sum_columns(column_chunks(3, 5), SumOfRows{reference.dy.data(), dbias.data(), 5});
  EXPECT_THAT(y, Pointwise(FloatNear(1e-6f), reference.y));
  EXPECT_THAT(dx, Pointwise(FloatNear(1e-6f), reference.dx));
  EXPECT_THAT(dweight, Pointwise(FloatNear(1e-6f), reference.gradients[0]));
  EXPECT_THAT(dbias, Pointwise(FloatNear(1e-6f), reference.gradients[1]));
}

TEST(CudaMaths, BiasGradientOfAConvolutionSumsItsChannel) {
  Shape output{3, 4, 9, 11};  // 297 values a channel: more than there are lanes
  Reference reference(Conv2d{.out = 4, .kernel = 1}, {3, 2, 9, 11});
  reference.forward_backward();
  Values dbias(4);
  Channels channels{3, 4, 99};
  sum_each(4, channels.values(), SumChannel{reference.dy.data(), dbias.data(), channels});
  EXPECT_THAT(dbias, Pointwise(FloatNear(1e-5f), reference.gradients[1]));
}

struct PoolCase {
  MaxPool2d spec;
  Shape input;
};

class CudaMaxPool : public testing::TestWithParam<PoolCase> {
 protected:
  void expect_same_bits(Reference& reference) {
    const auto& [spec, input] = GetParam();
    reference.y = reference.run.forward(reference.x);
    reference.dy = random_values(static_cast<std::int64_t>(reference.y.size()), 7);
    reference.dx = reference.run.backward(reference.dy);
    const Shape& output = reference.run.output_shape();
    PoolWindows windows{spec.kernel, spec.stride, spec.padding, input[2], input[3], output[2], output[3]};
    Values y(reference.y.size()), dx(reference.x.size(), 99.0f);
    for_each(y.size(), MaxPoolForward{reference.x.data(), y.data(), windows});
    for_each(dx.size(), MaxPoolBackward{reference.x.data(), reference.dy.data(), dx.data(), windows});
    EXPECT_THAT(y, Pointwise(testing::NanSensitiveFloatEq(), reference.y));
    EXPECT_EQ(dx, reference.dx);
  }
};

TEST_P(CudaMaxPool, IsTheReferenceToTheBit) {
  Reference reference(GetParam().spec, GetParam().input);
  expect_same_bits(reference);
}

TEST_P(CudaMaxPool, FirstOfEqualOnesGetsTheGradient) {
  Reference reference(GetParam().spec, GetParam().input);
  for (float& value : reference.x) value = value > 0 ? 1.0f : 0.0f;
  expect_same_bits(reference);
}

TEST_P(CudaMaxPool, NanCountsAsLargest) {
  Reference reference(GetParam().spec, GetParam().input);
  for (std::size_t i = 0; i < reference.x.size(); i += 7) reference.x[i] = std::numeric_limits<float>::quiet_NaN();
  expect_same_bits(reference);
}

INSTANTIATE_TEST_SUITE_P(Windows, CudaMaxPool,
                         testing::Values(PoolCase{{2, 2}, {2, 3, 6, 8}}, PoolCase{{2, 2}, {2, 1, 7, 5}},
                                         PoolCase{{3, 2}, {1, 2, 8, 9}}, PoolCase{{3, 1}, {2, 2, 5, 6}},
                                         PoolCase{{2, 3}, {1, 2, 8, 10}}, PoolCase{{1, 2}, {1, 1, 5, 5}},
                                         PoolCase{{4, 4}, {1, 1, 4, 4}}, PoolCase{{3, 2, 1}, {2, 2, 6, 5}},
                                         PoolCase{{2, 1, 1}, {1, 2, 4, 3}}, PoolCase{{5, 3, 2}, {1, 2, 7, 9}}));

class CudaBatchNorm : public testing::TestWithParam<Shape> {};

TEST_P(CudaBatchNorm, AgreesWithReference) {
  const Shape& input = GetParam();
  const float epsilon = 1e-5f;
  Reference reference(BatchNorm{epsilon}, input);
  reference.forward_backward();
  Channels channels{input[0], input[1], input.size() == 4 ? input[2] * input[3] : 1};
  const auto count = static_cast<std::size_t>(element_count(input)), c = static_cast<std::size_t>(input[1]);
  std::vector<double> state(8 * c);
  double* row = state.data();
  BatchMoments observed{row, row + c, row + 2 * c}, running{row + 3 * c, row + 4 * c, row + 5 * c};
  GradientSums sums{row + 6 * c, row + 7 * c};
  const float *x = reference.x.data(), *dy = reference.dy.data();
  const auto& p = reference.parameters;
  Values y(count), evaluated(count), dx(count), dweight(c), dbias(c), mean(c), variance(c);

  sum_each(input[1], channels.values(), BatchMean{x, observed, channels});
  sum_each(input[1], channels.values(), BatchVariance{x, observed, channels, epsilon});
  for_each(count, Normalize{x, y.data(), p[0].data(), p[1].data(), observed, channels});
  for_each(c, RunningMoments{p[2].data(), p[3].data(), running, epsilon});
  for_each(count, Normalize{x, evaluated.data(), p[0].data(), p[1].data(), running, channels});
  sum_each(input[1], channels.values(), WeightGradient{x, dy, observed, sums, channels});
  sum_each(input[1], channels.values(), BiasGradient{dy, sums, channels});
  for_each(count, InputGradient{x, dy, dx.data(), p[0].data(), observed, sums, channels});
  const auto n = static_cast<double>(channels.values());
  for_each(c, BatchNormGradients{observed, sums, dweight.data(), dbias.data(), mean.data(), variance.data(),
                                 n > 1 ? n / (n - 1) : 1.0});

  EXPECT_THAT(y, Pointwise(FloatNear(2e-6f), reference.y));
  EXPECT_THAT(evaluated, Pointwise(FloatNear(2e-6f), reference.evaluated));
  EXPECT_THAT(dx, Pointwise(FloatNear(2e-6f), reference.dx));
  EXPECT_THAT(dweight, Pointwise(FloatNear(1e-5f), reference.gradients[0]));
  EXPECT_THAT(dbias, Pointwise(FloatNear(1e-5f), reference.gradients[1]));
  EXPECT_THAT(mean, Pointwise(FloatNear(1e-7f), reference.gradients[2]));
  EXPECT_THAT(variance, Pointwise(FloatNear(1e-6f), reference.gradients[3]));
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaBatchNorm,
                         testing::Values(Shape{4, 3, 5, 6}, Shape{2, 5, 17, 19}, Shape{8, 6}, Shape{600, 2}));
}  // namespace
}  // namespace distdl::kernels::cuda::test
