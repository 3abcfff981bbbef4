// SPDX-License-Identifier: Apache-2.0
// The index and reduction maths of the CUDA kernels, run on the CPU against the backend "reference". Needs no CUDA.
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/cuda/layers/batch_norm.hpp>
#include <distdl/kernels/cuda/layers/max_pool2d.hpp>
#include <distdl/kernels/cuda/primitives/channels.hpp>

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
  fill_each(y.size(), AddBias<float>{y.data(), reference.parameters[1].data(), outputs});
  multiply(gemms.backward_input(), 1, reference.parameters[0].data(), reference.dy.data(), dx.data());
  multiply(gemms.backward_weights(), 1, reference.x.data(), reference.dy.data(), dweight.data());
  sum_columns(column_chunks(3, 5), SumOfRows<float>{reference.dy.data(), dbias.data(), 5});
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
  sum_each(4, channels.values(), SumChannel<float>{reference.dy.data(), dbias.data(), channels});
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
    for_each(y.size(), MaxPoolForward<float>{reference.x.data(), y.data(), windows});
    for_each(dx.size(), MaxPoolBackward<float>{reference.x.data(), reference.dy.data(), dx.data(), windows});
    EXPECT_THAT(y, Pointwise(testing::NanSensitiveFloatEq(), reference.y));
    EXPECT_EQ(dx, reference.dx);

    windows.channels = input[1];
    const Values x = with_channels_last(reference.x, input), dy = with_channels_last(reference.dy, output);
    for_each(y.size(), MaxPoolForward<float>{x.data(), y.data(), windows});
    for_each(dx.size(), MaxPoolBackward<float>{x.data(), dy.data(), dx.data(), windows});
    EXPECT_THAT(with_channels_first(y, output), Pointwise(testing::NanSensitiveFloatEq(), reference.y));
    EXPECT_EQ(with_channels_first(dx, input), reference.dx);
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

TEST(CudaMaxPool, TakesSixteenBits) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(MaxPool2d{3, 2, 1}, {2, 2, 6, 5});
    reference.forward_backward<T>();
    const PoolWindows windows{3, 2, 1, 6, 5, 3, 3};
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(dy.size()), dx(x.size());
    for_each(y.size(), MaxPoolForward<T>{x.data(), y.data(), windows});
    for_each(dx.size(), MaxPoolBackward<T>{x.data(), dy.data(), dx.data(), windows});
    EXPECT_EQ(y, as<T>(reference.y));
    expect_near(dx, reference.dx, 1e-6f);
  });
}

INSTANTIATE_TEST_SUITE_P(Windows, CudaMaxPool,
                         testing::Values(PoolCase{{2, 2}, {2, 3, 6, 8}}, PoolCase{{2, 2}, {2, 1, 7, 5}},
                                         PoolCase{{3, 2}, {1, 2, 8, 9}}, PoolCase{{3, 1}, {2, 2, 5, 6}},
                                         PoolCase{{2, 3}, {1, 2, 8, 10}}, PoolCase{{1, 2}, {1, 1, 5, 5}},
                                         PoolCase{{4, 4}, {1, 1, 4, 4}}, PoolCase{{3, 2, 1}, {2, 2, 6, 5}},
                                         PoolCase{{2, 1, 1}, {1, 2, 4, 3}}, PoolCase{{5, 3, 2}, {1, 2, 7, 9}}));

class CudaBatchNorm : public testing::TestWithParam<Shape> {};

/// What the layer does, step by step.
template <class T>
class BatchNormOnCpu {
 public:
  BatchNormOnCpu(const Channels& of, float epsilon, const std::vector<Values>& parameters, bool then_relu = false)
      : of_(of),
        epsilon_(epsilon),
        p_(parameters),
        then_relu_(then_relu),
        state_(static_cast<std::size_t>(8 * of.channels)) {}

  std::vector<T> forward(const std::vector<T>& x) {
    if (of_.is_last) {
      sum_columns(columns_of(of_), BatchSums<T>{x.data(), observed_, of_, epsilon_});
    } else {
      sum_each(of_.channels, of_.values(), BatchMean<T>{x.data(), observed_, of_});
      sum_each(of_.channels, of_.values(), BatchVariance<T>{x.data(), observed_, of_, epsilon_});
    }
    return y_ = normalized(x, observed_);
  }
  std::vector<T> evaluate(const std::vector<T>& x) {
    for_each(static_cast<std::size_t>(of_.channels), RunningMoments{p_[2].data(), p_[3].data(), running_, epsilon_});
    return normalized(x, running_);
  }
  std::vector<T> backward(const std::vector<T>& x, const std::vector<T>& of_output) {
    const Slope<T> dy{of_output.data(), then_relu_ ? y_.data() : nullptr};
    if (of_.is_last) {
      sum_columns(columns_of(of_), BothGradients<T>{x.data(), dy, observed_, sums_, of_.channels});
    } else {
      sum_each(of_.channels, of_.values(), WeightGradient<T>{x.data(), dy, observed_, sums_, of_});
      sum_each(of_.channels, of_.values(), BiasGradient<T>{dy, sums_, of_});
    }
    std::vector<T> dx(x.size());
    fill_each(dx.size(), InputGradient<T>{x.data(), dy, dx.data(), p_[0].data(), observed_, sums_, of_});
    return dx;
  }
  /// weight, bias, mean, variance
  std::vector<Values> gradients() {
    std::vector<Values> all(4, Values(static_cast<std::size_t>(of_.channels)));
    const auto n = static_cast<double>(of_.values());
    for_each(all[0].size(), BatchNormGradients{observed_, sums_, all[0].data(), all[1].data(), all[2].data(),
                                               all[3].data(), n > 1 ? n / (n - 1) : 1.0});
    return all;
  }

 private:
  std::vector<T> normalized(const std::vector<T>& x, const BatchMoments& moments) {
    std::vector<T> y(x.size());
    fill_each(y.size(), Normalize<T>{x.data(), y.data(), p_[0].data(), p_[1].data(), moments, of_, then_relu_});
    return y;
  }
  double* row(std::int64_t number) { return state_.data() + number * of_.channels; }

  Channels of_;
  float epsilon_;
  const std::vector<Values>& p_;
  bool then_relu_;
  std::vector<T> y_;
  std::vector<double> state_;
  BatchMoments observed_{row(0), row(1), row(2)}, running_{row(3), row(4), row(5)};
  GradientSums sums_{row(6), row(7)};
};

template <class T>
void expect_batch_norm(const Shape& input, bool channels_are_last) {
  Reference reference(BatchNorm{1e-5f}, input);
  reference.forward_backward<T>();
  const Channels of{input[0], input[1], input.size() == 4 ? input[2] * input[3] : 1, channels_are_last};
  const Shape shape{input[0], input[1], of.pixels, 1};
  const auto moved = [&](const auto& dense) { return channels_are_last ? with_channels_last(dense, shape) : dense; };
  const auto x = moved(as<T>(reference.x)), dy = moved(as<T>(reference.dy));
  BatchNormOnCpu<T> layer(of, 1e-5f, reference.parameters);
  expect_near(layer.forward(x), moved(reference.y), 2e-6f);
  expect_near(layer.evaluate(x), moved(reference.evaluated), 2e-6f);
  expect_near(layer.backward(x, dy), moved(reference.dx), 2e-6f);
  const auto gradients = layer.gradients();
  EXPECT_THAT(gradients[0], Pointwise(FloatNear(1e-5f), reference.gradients[0]));
  EXPECT_THAT(gradients[1], Pointwise(FloatNear(1e-5f), reference.gradients[1]));
  EXPECT_THAT(gradients[2], Pointwise(FloatNear(1e-7f), reference.gradients[2]));
  EXPECT_THAT(gradients[3], Pointwise(FloatNear(1e-6f), reference.gradients[3]));
}

TEST_P(CudaBatchNorm, AgreesWithReference) {
  for_each_type([&](auto example) {
    for (bool channels_are_last : {false, true}) expect_batch_norm<decltype(example)>(GetParam(), channels_are_last);
  });
}

/// As the two layers one after the other, to the bit.
template <class T>
void expect_relu_within(const Shape& input, bool channels_are_last) {
  Reference reference(BatchNorm{1e-5f}, input);
  reference.forward_backward<T>();
  const Channels of{input[0], input[1], input.size() == 4 ? input[2] * input[3] : 1, channels_are_last};
  auto x = as<T>(reference.x);
  const auto dy = as<T>(reference.dy);
  BatchNormOnCpu<T> apart(of, 1e-5f, reference.parameters), together(of, 1e-5f, reference.parameters, true);
  const auto relu = [](std::vector<T> values) {
    for (T& value : values) value = T(elementwise::Relu{}(static_cast<float>(value)));
    return values;
  };
  const auto y = relu(apart.forward(x));
  EXPECT_EQ(together.forward(x), y);
  EXPECT_EQ(together.evaluate(x), relu(apart.evaluate(x)));
  auto slopes = dy;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (!(static_cast<float>(y[i]) > 0)) slopes[i] = T(0.0f);
  EXPECT_NE(slopes, dy);
  EXPECT_EQ(together.backward(x, dy), apart.backward(x, slopes));
  EXPECT_EQ(together.gradients(), apart.gradients());
  x[0] = T(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(static_cast<float>(together.forward(x)[0])));
}

TEST_P(CudaBatchNorm, TakesAReluIn) {
  for_each_type([&](auto example) {
    for (bool channels_are_last : {false, true}) expect_relu_within<decltype(example)>(GetParam(), channels_are_last);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaBatchNorm,
                         testing::Values(Shape{4, 3, 5, 6}, Shape{2, 5, 17, 19}, Shape{8, 6}, Shape{600, 2}));
}  // namespace
}  // namespace distdl::kernels::cuda::test
